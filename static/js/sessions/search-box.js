// @ts-check
// <search-box>: results as you type. Up and Down choose one, Enter opens it, Escape closes the list. Without a choice,
// Enter filters the list of sessions. Snippets contain what agents said, so they are built from text nodes.
import { h, isSignedOut } from "../dom.js";
import { RESULT_LABELS, relativeTime } from "../format.js";

const WAIT_MS = 150;
const MIN_CHARS = 2;
const LIMIT = 12;

/** @typedef {{ text: string, match: boolean }} Part */
/** @typedef {{ type: string, session: string, kind: string | null, at: string | null, url: string, snippet: Part[] }} Result */

class SearchBox extends HTMLElement {
  #timer = 0;
  /** @type {AbortController | null} */ #request = null;
  #chosen = -1;

  connectedCallback() {
    this.#input.addEventListener("input", () => this.#searchSoon());
    this.#input.addEventListener("focus", () => this.#searchSoon());
    this.#input.addEventListener("keydown", (event) => this.#onKey(event));
    this.addEventListener("focusout", (event) => {
      if (!this.contains(/** @type {Node | null} */ (event.relatedTarget))) this.#close();
    });
  }

  get #input() {
    return /** @type {HTMLInputElement} */ (this.querySelector("input"));
  }

  get #list() {
    return /** @type {HTMLElement} */ (this.querySelector("[role=listbox]"));
  }

  get #options() {
    return /** @type {HTMLElement[]} */ ([...this.#list.querySelectorAll("[role=option]")]);
  }

  #searchSoon() {
    clearTimeout(this.#timer);
    this.#request?.abort();
    const text = this.#input.value.trim();
    if (text.length < MIN_CHARS) {
      this.#close();
      return;
    }
    this.#timer = window.setTimeout(() => this.#search(text), WAIT_MS);
  }

  /** @param {string} text */
  async #search(text) {
    const request = new AbortController();
    this.#request = request;
    if (this.#list.hidden) this.#show([status("Searching…")]);
    const query = new URLSearchParams({ q: text, limit: String(LIMIT), project: this.dataset.project ?? "" });
    for (const menu of this.closest("form")?.querySelectorAll("select[data-label]") ?? []) {
      const { name, value } = /** @type {HTMLSelectElement} */ (menu);
      if (value) query.set(name, value);
    }
    try {
      const response = await fetch(`/api/search/?${query}`, { signal: request.signal });
      if (isSignedOut(response) || response.status === 401 || response.status === 403) {
        this.#show([status("You've been signed out. Reload the page to sign in again.")]);
      } else if (!response.ok) {
        this.#show([status("Search failed. Try again.")]);
      } else {
        const { results, searched } = await response.json();
        this.#showResults(results, searched);
      }
    } catch {
      if (!request.signal.aborted) this.#show([status("Can't reach the server. Try again in a moment.")]);
    }
  }

  /** @param {Result[]} results @param {string} searched */
  #showResults(results, searched) {
    const note = searched === "metadata" ? "Only ids, names and metadata are searched." : "";
    const rows = results.map((result, position) => option(result, position));
    if (!rows.length) rows.push(status(`No results. ${note}`.trim()));
    else if (note) rows.push(status(note));
    this.#show(rows);
  }

  /** @param {HTMLElement[]} rows */
  #show(rows) {
    this.#chosen = -1;
    this.#input.removeAttribute("aria-activedescendant");
    this.#list.replaceChildren(...rows);
    this.#list.hidden = false;
    this.#input.setAttribute("aria-expanded", "true");
  }

  #close() {
    clearTimeout(this.#timer);
    this.#request?.abort();
    this.#list.hidden = true;
    this.#input.setAttribute("aria-expanded", "false");
    this.#input.removeAttribute("aria-activedescendant");
    this.#chosen = -1;
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const options = this.#options;
    if (event.key === "Escape" && !this.#list.hidden) {
      event.preventDefault();
      this.#close();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && options.length) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.#choose((this.#chosen + step + options.length + (this.#chosen < 0 && step < 0 ? 1 : 0)) % options.length);
    } else if (event.key === "Enter" && this.#chosen >= 0) {
      event.preventDefault();
      options[this.#chosen]?.querySelector("a")?.click();
    }
  }

  /** @param {number} position */
  #choose(position) {
    this.#chosen = position;
    this.#options.forEach((row, at) => row.setAttribute("aria-selected", String(at === position)));
    const row = this.#options[position];
    if (!row) return;
    this.#input.setAttribute("aria-activedescendant", row.id);
    row.scrollIntoView({ block: "nearest" });
  }
}

/** @param {Result} result @param {number} position */
function option(result, position) {
  const snippet = result.snippet.map((part) => (part.match ? h("mark", {}, part.text) : document.createTextNode(part.text)));
  const time = result.at ? relativeTime(Date.parse(result.at), Date.now()) : "";
  const isSession = result.type === "session";
  return h(
    "div",
    { role: "option", id: `result-${position}`, "aria-selected": "false", "data-testid": "search-result" },
    h(
      "a",
      { href: result.url, tabindex: "-1" },
      h("span", { class: "tag" }, RESULT_LABELS[result.type] ?? result.type),
      h("span", { class: `result-text${isSession ? " mono" : ""}` }, h("bdi", {}, ...snippet)),
      isSession ? null : h("span", { class: "result-session mono faint small" }, h("bdi", {}, result.session)),
      h("span", { class: "faint small result-time" }, time),
    ),
  );
}

/** @param {string} text */
function status(text) {
  return h("div", { class: "search-status faint small", role: "status" }, text);
}

customElements.define("search-box", SearchBox);
