// @ts-check
// <fate-ledger>: filters the ledger by fate and text, and shows the stored text of a message. Only the rows that are on
// screen are in the document, because a ledger can have thousands.
import "../json-view.js";
import { fetchFragment, h } from "../dom.js";
import { tokens } from "../format.js";

/** @typedef {{position: number, id: string, hash: string, role: string, tokens: number, fate: string, rule: string, into: string}} Entry */

// The same as in ledger.css.
const ROW_HEIGHT = 28;
const OVERSCAN_ROWS = 20;
const WINDOW_ROWS = 80;
// Ledgers up to this length are drawn completely.
const MAX_ROWS = 150;

class FateLedger extends HTMLElement {
  /** @type {Entry[]} */ #entries = [];
  /** Entries that match the filters. @type {Entry[]} */ #shown = [];
  /** Rows with the text of a message, by the position of the message. @type {Map<number, HTMLElement>} */ #texts = new Map();
  #first = 0;
  #target = "";
  #isPrinting = false;

  connectedCallback() {
    this.#entries = this.#readEntries();
    this.#shown = this.#entries;
    this.#scroller.addEventListener("scroll", () => this.#draw(), { passive: true });
    addEventListener("hashchange", this.#showTarget);
    addEventListener("beforeprint", this.#print);
    addEventListener("afterprint", this.#print);
    this.#draw(true);
    this.#showTarget();
    this.addEventListener("click", this.#onClick);
    this.addEventListener("input", () => this.#filter());
    const fates = new URLSearchParams(location.search).getAll("fate");
    if (fates.length) {
      for (const chip of this.#chips) setPressed(chip, fates.includes(chip.dataset.fate ?? ""));
      this.#filter();
    }
  }

  disconnectedCallback() {
    removeEventListener("hashchange", this.#showTarget);
    removeEventListener("beforeprint", this.#print);
    removeEventListener("afterprint", this.#print);
  }

  #print = (/** @type {Event} */ event) => {
    this.#isPrinting = event.type === "beforeprint";
    this.#draw(true);
  };

  /** @returns {Entry[]} */
  #readEntries() {
    return JSON.parse(this.querySelector("script")?.textContent ?? "[]").map(
      (/** @type {any[]} */ [id, hash, role, count, fate, rule, into], /** @type {number} */ position) => ({
        position, id, hash, role, tokens: count, fate, rule, into,
      }),
    );
  }

  get #scroller() {
    return /** @type {HTMLElement} */ (this.querySelector(".ledger-scroll"));
  }

  get #body() {
    return /** @type {HTMLElement} */ (this.querySelector("tbody"));
  }

  get #template() {
    const template = /** @type {HTMLTemplateElement} */ (this.querySelector("template"));
    return /** @type {HTMLElement} */ (template.content.firstElementChild);
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
    this.#shown = this.#entries.filter(
      (entry) => fates.has(entry.fate) && (term === "" || `${entry.id} ${entry.role} ${entry.fate} ${entry.rule}`.toLowerCase().includes(term)),
    );
    this.#texts.clear();
    this.#draw(true);
  }

  /**
   * Draw the rows around the scroll position, between two empty rows that are as high as the others. A short ledger is
   * drawn completely.
   * @param {boolean} isForced draw again even if the same rows are visible
   */
  #draw(isForced = false) {
    const count = this.#shown.length;
    const isWindow = count > MAX_ROWS && !this.#isPrinting;
    const top = Math.max(0, Math.floor(this.#scroller.scrollTop / ROW_HEIGHT) - OVERSCAN_ROWS);
    // Whole steps, so that most scroll events change nothing.
    const first = isWindow ? Math.min(top - (top % OVERSCAN_ROWS), Math.max(0, count - WINDOW_ROWS)) : 0;
    if (!isForced && first === this.#first) return;
    this.#first = first;
    const last = isWindow ? Math.min(count, first + WINDOW_ROWS) : count;
    const rows = this.#shown.slice(first, last).flatMap((entry) => this.#rows(entry));
    const gaps = [gap(first), gap(count - last)];
    this.#body.replaceChildren(...(isWindow ? [gaps[0], ...rows, gaps[1]] : rows));
  }

  /** Return the row of a message and, if it is open, the row with its text. @param {Entry} entry */
  #rows(entry) {
    const row = /** @type {HTMLElement} */ (this.#template.cloneNode(true));
    row.id = `m-${entry.id}`;
    Object.assign(row.dataset, { fate: entry.fate, hash: entry.hash });
    row.classList.toggle("target", this.#target === row.id);
    const cells = [...row.children];
    cells[0].textContent = String(entry.position + 1);
    const button = cells[1].querySelector("button");
    if (button && entry.hash) button.textContent = cut(entry.id || "–", 24);
    else cells[1].textContent = cut(entry.id || "–", 24);
    cells[2].textContent = entry.role;
    cells[3].textContent = tokens(entry.tokens);
    for (const mark of cells[4].querySelectorAll("[data-fate]")) /** @type {HTMLElement} */ (mark).dataset.fate = entry.fate;
    cells[4].querySelector(".fate")?.append(entry.fate);
    cells[5].textContent = cut(entry.rule, 120);
    if (entry.into) cells[6].append(h("a", { href: "#summary" }, cut(entry.into, 20)));
    const text = this.#texts.get(entry.position);
    return text ? [row, text] : [row];
  }

  /** Scroll to the message that the address names, such as #m-17. */
  #showTarget = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    if (!id.startsWith("m-")) return;
    let at = this.#shown.findIndex((entry) => `m-${entry.id}` === id);
    if (at < 0 && this.#entries.some((entry) => `m-${entry.id}` === id)) {
      for (const chip of this.#chips) setPressed(chip, true);
      this.#shown = this.#entries;
      at = this.#shown.findIndex((entry) => `m-${entry.id}` === id);
    }
    if (at < 0) return;
    this.#target = id;
    if (this.#shown.length > MAX_ROWS) this.#scroller.scrollTop = (at - 5) * ROW_HEIGHT;
    this.#draw(true);
    document.getElementById(id)?.scrollIntoView({ block: "nearest" });
  };

  /** Show or hide the text of a message below its row. @param {HTMLElement} row */
  async #toggleText(row) {
    const entry = this.#shown.find((candidate) => `m-${candidate.id}` === row.id && candidate.hash === row.dataset.hash);
    // Ignore clicks while the text is loading.
    if (!entry || row.hasAttribute("aria-busy")) return;
    if (!this.#texts.delete(entry.position)) {
      row.setAttribute("aria-busy", "true");
      const text = await fetchFragment(`/sessions/${encodeURIComponent(this.dataset.session ?? "")}/messages/${entry.hash}/`);
      row.removeAttribute("aria-busy");
      if (!text) return;
      this.#texts.set(entry.position, h("tr", { class: "message-text" }, h("td", { colspan: "7" }, ...text)));
    }
    this.#draw(true);
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

/** Return an empty row as high as `count` rows. @param {number} count */
function gap(count) {
  const row = h("tr", { class: "gap", "aria-hidden": "true" }, h("td", { colspan: "7" }));
  row.style.height = `${count * ROW_HEIGHT}px`;
  return row;
}

/** Shorten a text like Django's `truncatechars`. @param {string} text @param {number} length */
function cut(text, length) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}
