// @ts-check
// The fate ledger: chips hide and show fates, a field searches, a click on a message brings its stored text.
import "./json-view.js";
import { parse } from "./dom.js";

class FateLedger extends HTMLElement {
  connectedCallback() {
    this.addEventListener("click", this.#onClick);
    this.addEventListener("input", () => this.#filter());
    const wanted = new URLSearchParams(location.search).get("fate");
    if (wanted) {
      for (const chip of this.#chips) chip.setAttribute("aria-pressed", String(chip.dataset.fate === wanted));
      this.#filter();
    }
  }

  get #chips() {
    return /** @type {NodeListOf<HTMLElement>} */ (this.querySelectorAll(".fate-chip"));
  }

  #onClick = async (/** @type {MouseEvent} */ event) => {
    const target = event.target instanceof Element ? event.target : null;
    const chip = target?.closest(".fate-chip");
    if (chip instanceof HTMLElement) this.#choose(chip, event.altKey || event.shiftKey);
    const button = target?.closest("[data-action=message]");
    if (button) await this.#toggleText(/** @type {HTMLElement} */ (button.closest("tr")));
  };

  /** A first click shows one fate alone; the next ones add and remove. @param {HTMLElement} chip @param {boolean} adds */
  #choose(chip, adds) {
    const all = [...this.#chips];
    const isEverything = all.every((one) => one.getAttribute("aria-pressed") === "true");
    if (isEverything && !adds) for (const one of all) one.setAttribute("aria-pressed", String(one === chip));
    else chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
    if (all.every((one) => one.getAttribute("aria-pressed") === "false")) for (const one of all) one.setAttribute("aria-pressed", "true");
    this.#filter();
  }

  #filter() {
    const shown = new Set([...this.#chips].filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.fate));
    const field = this.querySelector("input");
    const wanted = field?.value.trim().toLowerCase() ?? "";
    for (const row of /** @type {NodeListOf<HTMLElement>} */ (this.querySelectorAll("tbody tr[data-fate]"))) {
      row.hidden = !shown.has(row.dataset.fate) || (wanted !== "" && !(row.textContent ?? "").toLowerCase().includes(wanted));
      if (row.hidden && row.nextElementSibling?.matches(".message-text")) row.nextElementSibling.remove();
    }
  }

  /** @param {HTMLElement} row */
  async #toggleText(row) {
    if (row.nextElementSibling?.matches(".message-text")) {
      row.nextElementSibling.remove();
      return;
    }
    const answer = await fetch(`/sessions/${encodeURIComponent(this.dataset.session ?? "")}/messages/${row.dataset.hash}/`);
    if (!answer.ok) return;
    const holder = document.createElement("template");
    holder.content.append(...parse(`<table><tbody>${await answer.text()}</tbody></table>`));
    const text = holder.content.querySelector("tr");
    if (text) row.after(text);
  }
}
customElements.define("fate-ledger", FateLedger);
