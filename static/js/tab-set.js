// @ts-check
// <tab-set>: shows one of its sections at a time, first the one named by data-show, else the first with data-shown. Without a
// script, all of them are visible under their headings. Dispatches `tab` with the name of a section that the reader chose.
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
      tab.addEventListener("click", () => this.#choose(index));
      return tab;
    });
    const list = h("div", { role: "tablist", class: "tab-list" }, ...this.#tabs);
    list.addEventListener("keydown", this.#onKey);
    this.prepend(list);
    this.classList.add("ready");
    const wanted = this.#panels.findIndex((panel) => panel.dataset.tab === this.dataset.show);
    this.#show(wanted >= 0 ? wanted : Math.max(0, this.#panels.findIndex((panel) => panel.hasAttribute("data-shown"))));
  }

  /** @param {number} index */
  #choose(index) {
    this.#show(index);
    this.dispatchEvent(new CustomEvent("tab", { bubbles: true, detail: this.#panels[index]?.dataset.tab }));
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
    this.#choose(index);
    this.#tabs[index]?.focus();
    event.preventDefault();
  };
}

customElements.define("tab-set", TabSet);
