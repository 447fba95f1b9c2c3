// @ts-check
// <tab-set>: shows one of its sections at a time. Without a script, all of them are visible under their headings.
import { h } from "./dom.js";

class TabSet extends HTMLElement {
  /** @type {HTMLButtonElement[]} */ #tabs = [];
  /** @type {HTMLElement[]} */ #panels = [];

  connectedCallback() {
    if (this.#tabs.length) return;
    this.#panels = [.../** @type {NodeListOf<HTMLElement>} */ (this.querySelectorAll(":scope > [data-tab]"))];
    const id = this.id || `tabs-${document.querySelectorAll("tab-set").length}-${Math.random().toString(36).slice(2, 7)}`;
    this.#tabs = this.#panels.map((panel, index) => {
      panel.id ||= `${id}-${index}`;
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-label", panel.dataset.tab ?? "");
      const tab = h("button", { type: "button", role: "tab", class: "tab", "aria-controls": panel.id }, panel.dataset.tab);
      tab.addEventListener("click", () => this.#show(index));
      return tab;
    });
    const list = h("div", { role: "tablist", class: "tab-list" }, ...this.#tabs);
    list.addEventListener("keydown", this.#onKey);
    this.prepend(list);
    this.classList.add("ready");
    this.#show(0);
  }

  /** @param {number} shown */
  #show(shown) {
    this.#tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === shown));
      tab.tabIndex = index === shown ? 0 : -1;
    });
    this.#panels.forEach((panel, index) => (panel.hidden = index !== shown));
  }

  /** @param {KeyboardEvent} event */
  #onKey = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const count = this.#tabs.length;
    const index = (this.#tabs.indexOf(/** @type {HTMLButtonElement} */ (event.target)) + step + count) % count;
    this.#show(index);
    this.#tabs[index]?.focus();
    event.preventDefault();
  };
}

customElements.define("tab-set", TabSet);
