// @ts-check
// Keeps the list of sessions as the server would draw it now. A frame says that something changed; the rows come
// from the server, so that filters, paging and rights are decided in one place.
import { isSignedOut, parse } from "../dom.js";
import { LiveSocket } from "../live-socket.js";
import { localize } from "../relative-times.js";

// Often enough to feel live, seldom enough for a busy project.
const REFRESH_MS = 250;
// The figures above the list are sums over many sessions.
const STATS_MS = 2000;

class SessionList extends HTMLElement {
  /** @type {LiveSocket | null} */ #socket = null;
  #timer = 0;
  #statsTimer = 0;
  #last = 0;

  connectedCallback() {
    this.addEventListener("click", this.#onClick);
    this.addEventListener("change", this.#onChoose);
    this.#socket = new LiveSocket("/ws/sessions/", {
      after: Number(this.dataset.lastSeq ?? 0),
      query: () => ({ project: this.dataset.project ?? "" }),
      count: (frame) => frame.sessions?.length ?? 1,
      onFrame: () => {
        this.#refreshSoon();
        this.#statsTimer ||= window.setTimeout(() => this.#refreshStats(), STATS_MS);
      },
    });
  }

  disconnectedCallback() {
    this.#socket?.close();
    clearTimeout(this.#timer);
    clearTimeout(this.#statsTimer);
  }

  #refreshSoon() {
    // Older pages stay as they are: rows would run away under the reader.
    if (this.#timer || new URLSearchParams(location.search).has("before")) return;
    const wait = Math.max(0, this.#last + REFRESH_MS - performance.now());
    this.#timer = window.setTimeout(() => this.#refresh(), wait);
  }

  async #refreshStats() {
    this.#statsTimer = 0;
    const stats = document.querySelector(".stats");
    try {
      const answer = await fetch(fragment("stats"));
      // Who is on one of its links is not moved away from it.
      if (answer.ok && !isSignedOut(answer) && !stats?.contains(document.activeElement)) stats?.replaceWith(...parse(await answer.text()));
    } catch {
      // As below.
    }
  }

  async #refresh() {
    try {
      const answer = await fetch(fragment("rows"));
      if (!answer.ok || isSignedOut(answer)) return;
      const rows = rowsOf(await answer.text());
      const body = this.querySelector("tbody");
      if (body) this.#draw(body, rows);
      // The first session has come that this list would show: the page has a table to show now.
      else if (rows.length && !this.contains(document.activeElement)) location.reload();
    } catch {
      // The server is away; the socket says so, and its return brings the next refresh.
    } finally {
      this.#last = performance.now();
      this.#timer = 0;
    }
  }

  /** @param {HTMLElement} body @param {HTMLTableRowElement[]} rows */
  #draw(body, rows) {
    const old = new Map([...body.querySelectorAll("tr")].map((row) => [row.dataset.key, row]));
    /** @type {HTMLElement | null} */ let focused = body.querySelector(":focus");
    let at = body.firstElementChild;
    for (const fresh of rows) {
      const known = old.get(fresh.dataset.key);
      old.delete(fresh.dataset.key);
      let row = fresh;
      if (known && known.dataset.seq === fresh.dataset.seq) row = known;
      else if (known) {
        // Cells change, the row stays: focus, choice and hover outlive the update.
        const chosen = known.querySelector("input")?.checked ?? false;
        /** @type {string} */ const hadFocus = focused && known.contains(focused) ? focused.tagName : "";
        known.replaceChildren(...fresh.children);
        known.dataset.seq = fresh.dataset.seq;
        known.toggleAttribute("data-running", fresh.hasAttribute("data-running"));
        const box = known.querySelector("input");
        if (box) box.checked = chosen;
        if (hadFocus) focused = known.querySelector(hadFocus);
        row = known;
      }
      if (row === at) at = at?.nextElementSibling ?? null;
      else body.insertBefore(row, at);
    }
    for (const gone of old.values()) gone.remove();
    // A row that moves to the top loses the focus on its way.
    if (focused !== document.activeElement) focused?.focus({ preventScroll: true });
    this.#onChoose();
    localize(body);
  }

  #onClick = (/** @type {MouseEvent} */ event) => {
    const target = event.target instanceof Element ? event.target : null;
    const button = target?.closest("[data-action]");
    if (button?.getAttribute("data-action") === "live") {
      this.#socket?.press(button);
    } else if (button?.getAttribute("data-action") === "compare") {
      const [a, b] = this.#chosen();
      if (a && b) location.assign(`/compare/?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
    } else if (target && !target.closest("a, input, button")) {
      // The whole row leads where its name leads.
      const link = target.closest("tr[data-key]")?.querySelector("a");
      if (link && !getSelection()?.toString()) link.click();
    }
  };

  #onChoose = () => {
    const button = this.querySelector("[data-action=compare]");
    if (button instanceof HTMLButtonElement) button.disabled = this.#chosen().length !== 2;
  };

  #chosen() {
    const boxes = /** @type {NodeListOf<HTMLInputElement>} */ (this.querySelectorAll("input[name=session]:checked"));
    return [...boxes].map((box) => box.value);
  }
}

/** @param {string} html rows as the server draws them @returns {HTMLTableRowElement[]} */
function rowsOf(html) {
  const holder = document.createElement("template");
  holder.content.append(...parse(`<table><tbody>${html}</tbody></table>`));
  return [...holder.content.querySelectorAll("tr")];
}

/** The address of a part of this page, as filtered as the page is. @param {string} name */
function fragment(name) {
  const url = new URL(location.href);
  url.searchParams.set("fragment", name);
  return url;
}
customElements.define("session-list", SessionList);
