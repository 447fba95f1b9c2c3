// @ts-check
// <session-list>: keeps the session list and the figures above it up to date. The server renders both.
import { parse } from "../dom.js";
import { LiveParts } from "../live-parts.js";
import { LiveSocket } from "../live-socket.js";
import { updateTimes } from "../relative-times.js";
import { closeMenusOnLeave } from "./list-menus.js";
import { SavedViews } from "./saved-views.js";

// Minimum time between two refreshes.
const REFRESH_MS = 250;
// The statistics above the list aggregate many sessions. Refresh them less often.
const STATS_MS = 2000;

class SessionList extends HTMLElement {
  /** @type {LiveSocket | null} */ #socket = null;
  #rows = new LiveParts("rows", REFRESH_MS, (html) => this.#showRows(html));
  #stats = new LiveParts("stats", STATS_MS);

  connectedCallback() {
    this.addEventListener("click", this.#onClick);
    this.addEventListener("change", this.#updateCompareButton);
    this.addEventListener("change", this.#onColumnChange);
    rememberAddress();
    new SavedViews(this);
    closeMenusOnLeave(this);
    this.#socket = new LiveSocket("/ws/sessions/", {
      after: Number(this.dataset.lastSeq ?? 0),
      query: () => ({ project: this.dataset.project ?? "" }),
      count: (frame) => frame.sessions?.length ?? 1,
      onFrame: () => {
        // Older pages don't refresh, because rows would move while the user reads them.
        if (!new URLSearchParams(location.search).has("before")) this.#rows.refreshSoon();
        this.#stats.refreshSoon();
      },
    });
  }

  disconnectedCallback() {
    this.#socket?.close();
    this.#rows.stop();
    this.#stats.stop();
  }

  /** @param {string} html */
  #showRows(html) {
    const rows = parseRows(html);
    const body = this.querySelector("tbody");
    if (body) this.#updateRows(body, rows);
    // The list was empty and the page has no table yet.
    else if (rows.length && !this.contains(document.activeElement)) location.reload();
  }

  /**
   * Update the table in place.
   * @param {HTMLElement} body
   * @param {HTMLTableRowElement[]} rows as the server renders them now
   */
  #updateRows(body, rows) {
    const knownRows = new Map([...body.querySelectorAll("tr")].map((row) => [row.dataset.key, row]));
    /** @type {HTMLElement | null} */ let focused = body.querySelector(":focus");
    let position = body.firstElementChild;
    for (const fresh of rows) {
      const known = knownRows.get(fresh.dataset.key);
      knownRows.delete(fresh.dataset.key);
      const row = known ?? fresh;
      if (known && known.dataset.seq !== fresh.dataset.seq) {
        /** @type {string} */ const focusedTag = focused && known.contains(focused) ? focused.tagName : "";
        replaceCells(known, fresh);
        if (focusedTag) focused = known.querySelector(focusedTag);
      }
      if (row === position) position = position?.nextElementSibling ?? null;
      else body.insertBefore(row, position);
    }
    for (const row of knownRows.values()) row.remove();
    // A row that moves to the top loses the focus.
    if (focused !== document.activeElement) focused?.focus({ preventScroll: true });
    this.#updateCompareButton();
    updateTimes(body);
  }

  #onClick = (/** @type {MouseEvent} */ event) => {
    const target = event.target instanceof Element ? event.target : null;
    const button = target?.closest("[data-action]");
    if (button?.getAttribute("data-action") === "live") {
      this.#socket?.toggleFrom(button);
    } else if (button?.getAttribute("data-action") === "compare") {
      const [a, b] = this.#selectedSessions();
      if (a && b) location.assign(`/compare/?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
    } else if (target && !target.closest("a, input, button")) {
      // A click anywhere in a row follows its link.
      const link = target.closest("tr[data-key]")?.querySelector("a");
      if (link && !getSelection()?.toString()) link.click();
    }
  };

  /** Show or hide a column, and keep the choice in the address. */
  #onColumnChange = (/** @type {Event} */ event) => {
    if (!(event.target instanceof HTMLInputElement) || event.target.name !== "column") return;
    const boxes = /** @type {NodeListOf<HTMLInputElement>} */ (this.querySelectorAll("input[name=column]"));
    const hidden = [...boxes].filter((box) => !box.checked).map((box) => box.value);
    this.querySelector("table.sessions")?.setAttribute("data-hide", hidden.join(" "));
    const url = new URL(location.href);
    if (hidden.length) url.searchParams.set("hide", hidden.join(","));
    else url.searchParams.delete("hide");
    history.replaceState(null, "", url);
    rememberAddress();
  };

  #updateCompareButton = () => {
    const button = this.querySelector("[data-action=compare]");
    if (button instanceof HTMLButtonElement) button.disabled = this.#selectedSessions().length !== 2;
  };

  #selectedSessions() {
    const boxes = /** @type {NodeListOf<HTMLInputElement>} */ (this.querySelectorAll("input[name=session]:checked"));
    return [...boxes].map((box) => box.value);
  }
}

/**
 * Replace the cells of a row but keep the row, so that its checkbox stays checked.
 * @param {HTMLElement} row
 * @param {HTMLElement} fresh
 */
function replaceCells(row, fresh) {
  const isChecked = row.querySelector("input")?.checked ?? false;
  row.replaceChildren(...fresh.children);
  row.dataset.seq = fresh.dataset.seq;
  row.toggleAttribute("data-running", fresh.hasAttribute("data-running"));
  const checkbox = row.querySelector("input");
  if (checkbox) checkbox.checked = isChecked;
}

/** @param {string} html rows of a table @returns {HTMLTableRowElement[]} */
function parseRows(html) {
  const template = document.createElement("template");
  template.content.append(...parse(`<table><tbody>${html}</tbody></table>`));
  return [...template.content.querySelectorAll("tr")];
}

/** Remember the filters for links back to this list. */
function rememberAddress() {
  sessionStorage.setItem("list-query", location.search);
}

customElements.define("session-list", SessionList);
