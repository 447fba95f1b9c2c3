// @ts-check
// The fate ledger: chips hide and show fates, a field searches, a click on a message brings its stored text.
import "../json-view.js";
import { fetchPiece, h } from "../dom.js";

class FateLedger extends HTMLElement {
  connectedCallback() {
    this.addEventListener("click", this.#onClick);
    this.addEventListener("input", () => this.#filter());
    const wanted = new URLSearchParams(location.search).getAll("fate");
    if (wanted.length) {
      for (const chip of this.#chips) chip.setAttribute("aria-pressed", String(wanted.includes(chip.dataset.fate ?? "")));
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
    const url = new URL(location.href);
    url.searchParams.delete("fate");
    const shown = all.filter((one) => one.getAttribute("aria-pressed") === "true");
    if (shown.length < all.length) for (const one of shown) url.searchParams.append("fate", one.dataset.fate ?? "");
    history.replaceState(null, "", url);
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
    // A second click while the text is under way does not ask for it twice.
    if (row.hasAttribute("aria-busy")) return;
    row.setAttribute("aria-busy", "true");
    const text = await fetchPiece(`/sessions/${encodeURIComponent(this.dataset.session ?? "")}/messages/${row.dataset.hash}/`);
    row.removeAttribute("aria-busy");
    if (text) row.after(h("tr", { class: "message-text" }, h("td", { colspan: "7" }, ...text)));
  }
}
customElements.define("fate-ledger", FateLedger);
