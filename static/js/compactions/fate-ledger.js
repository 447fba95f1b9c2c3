// @ts-check
// <fate-ledger>: filters the ledger by fate and text, and shows the stored text of a message.
import "../json-view.js";
import { fetchFragment, h } from "../dom.js";

class FateLedger extends HTMLElement {
  connectedCallback() {
    this.addEventListener("click", this.#onClick);
    this.addEventListener("input", () => this.#filter());
    const fates = new URLSearchParams(location.search).getAll("fate");
    if (fates.length) {
      for (const chip of this.#chips) setPressed(chip, fates.includes(chip.dataset.fate ?? ""));
      this.#filter();
    }
  }

  get #chips() {
    return /** @type {HTMLElement[]} */ ([...this.querySelectorAll(".fate-chip")]);
  }

  #onClick = async (/** @type {MouseEvent} */ event) => {
    const target = event.target instanceof Element ? event.target : null;
    const chip = target?.closest(".fate-chip");
    if (chip instanceof HTMLElement) this.#toggleFate(chip, event.altKey || event.shiftKey);
    const button = target?.closest("[data-action=message]");
    if (button) await this.#toggleText(/** @type {HTMLElement} */ (button.closest("tr")));
  };

  /**
   * Toggle one fate. While all fates are shown, a click shows only that one, unless a modifier key is held. When the last
   * fate is turned off, all are shown again.
   * @param {HTMLElement} chip
   * @param {boolean} hasModifier
   */
  #toggleFate(chip, hasModifier) {
    const chips = this.#chips;
    if (chips.every(isPressed) && !hasModifier) for (const other of chips) setPressed(other, other === chip);
    else setPressed(chip, !isPressed(chip));
    if (!chips.some(isPressed)) for (const other of chips) setPressed(other, true);
    this.#filter();
    this.#updateAddress();
  }

  /** Keep the selected fates in the URL so that the view can be shared. */
  #updateAddress() {
    const chips = this.#chips;
    const url = new URL(location.href);
    url.searchParams.delete("fate");
    if (!chips.every(isPressed)) for (const chip of chips.filter(isPressed)) url.searchParams.append("fate", chip.dataset.fate ?? "");
    history.replaceState(null, "", url);
  }

  #filter() {
    const fates = new Set(this.#chips.filter(isPressed).map((chip) => chip.dataset.fate));
    const term = this.querySelector("input")?.value.trim().toLowerCase() ?? "";
    for (const row of /** @type {NodeListOf<HTMLElement>} */ (this.querySelectorAll("tbody tr[data-fate]"))) {
      row.hidden = !fates.has(row.dataset.fate) || (term !== "" && !(row.textContent ?? "").toLowerCase().includes(term));
      if (row.hidden && row.nextElementSibling?.matches(".message-text")) row.nextElementSibling.remove();
    }
  }

  /** Show or hide the text of a message below its row. @param {HTMLElement} row */
  async #toggleText(row) {
    if (row.nextElementSibling?.matches(".message-text")) {
      row.nextElementSibling.remove();
      return;
    }
    // Ignore clicks while the text is loading.
    if (row.hasAttribute("aria-busy")) return;
    row.setAttribute("aria-busy", "true");
    const text = await fetchFragment(`/sessions/${encodeURIComponent(this.dataset.session ?? "")}/messages/${row.dataset.hash}/`);
    row.removeAttribute("aria-busy");
    if (text) row.after(h("tr", { class: "message-text" }, h("td", { colspan: "7" }, ...text)));
  }
}
customElements.define("fate-ledger", FateLedger);

/** @param {HTMLElement} chip */
function isPressed(chip) {
  return chip.getAttribute("aria-pressed") === "true";
}

/** @param {HTMLElement} chip @param {boolean} value */
function setPressed(chip, value) {
  chip.setAttribute("aria-pressed", String(value));
}
