// @ts-check
// Live events of all sessions. Keeps the newest, draws those on screen, follows the end unless the reader scrolled up.
import { h, icon, setText, toast } from "../dom.js";
import { counted, duration, exact, precise, shortTokens } from "../format.js";
import { kindOf, titleOf } from "../kinds.js";
import { LiveSocket } from "../live-socket.js";

/** @typedef {{ seq: number, session: string, session_key: string, trace: string, id: string, kind: string, name: string,
 *   status: string, at: number | null, start: number | null, end: number | null, tokens: number | null, text: string }} TailEvent */

const ROW = 24;
const SPARE = 8;
// Enough for the tallest screens, and an end where a page is laid out without one.
const MAX_ROWS = 160;
// What the page keeps; beyond it the oldest go, a tenth at a time, so that the arrays are not moved at every event.
const KEPT = 20_000;
const FILTER_MS = 200;

class EventTail extends HTMLElement {
  /** @type {LiveSocket | null} */ #socket = null;
  /** @type {TailEvent[]} */ #events = [];
  /** What was there before the page began to follow, whatever the filter. @type {TailEvent[]} */ #before = [];
  /** What was there when a filter changed during a pause. @type {TailEvent[] | null} */ #held = null;
  /** @type {HTMLElement[]} */ #rows = [];
  #frame = 0;
  #timer = 0;
  #ticker = 0;
  #unseen = 0;
  #from = 0;
  #recent = 0;
  #isFollowing = true;
  /** What is wanted of each event, as the form says. @type {Record<string, string>} */ #wanted = {};
  /** @type {RegExp | null} */ #regex = null;
  /** @type {ResizeObserver | null} */ #resize = null;
  #sizer = h("div", { class: "tail-sizer" });
  #newest = h("button", { class: "button primary tail-newest", type: "button", hidden: true });
  #none = h("div", { class: "empty tail-empty", role: "status", hidden: true }, "No event here passes the filter. Those that come and pass appear by themselves.");
  /** @type {HTMLElement | null} */ #body = null;

  connectedCallback() {
    const body = /** @type {HTMLElement} */ (this.querySelector(".tail-body"));
    this.#body = body;
    body.replaceChildren(this.#sizer);
    body.tabIndex = 0;
    body.setAttribute("role", "log");
    body.setAttribute("aria-label", "Live events");
    body.setAttribute("aria-live", "off");
    this.append(this.#newest, this.#none);
    const first = document.getElementById("tail-first")?.textContent;
    this.#from = Number(this.dataset.lastSeq ?? 0);
    this.#readFilters();
    this.#before = JSON.parse(first ?? "[]");
    this.#take(this.#before.filter((event) => this.#passes(event)));
    this.#recent = 0;
    this.#drawSoon();
    body.addEventListener("scroll", this.#onScroll, { passive: true });
    this.#newest.addEventListener("click", () => this.#follow());
    this.addEventListener("click", this.#onClick);
    this.addEventListener("input", this.#onFilter);
    this.addEventListener("submit", (event) => event.preventDefault());
    this.#socket = new LiveSocket("/ws/tail/", {
      after: Number(this.dataset.lastSeq ?? 0),
      query: () => ({ project: this.dataset.project ?? "", ...this.#wanted }),
      count: (frame) => frame.events?.length ?? 1,
      onFrame: (frame) => frame.events && this.#take(frame.events),
    });
    this.#resize = new ResizeObserver(() => this.#drawSoon());
    this.#resize.observe(body);
    this.#ticker = window.setInterval(() => this.#tellRate(), 1000);
  }

  disconnectedCallback() {
    this.#socket?.close();
    this.#resize?.disconnect();
    clearInterval(this.#ticker);
    clearTimeout(this.#timer);
  }

  /** Once for each change and not for each event: to read a form takes longer than to judge an event. */
  #readFilters() {
    const form = this.querySelector("form");
    this.#wanted = {};
    if (form) for (const [name, value] of new FormData(form)) if (name !== "regex" && value) this.#wanted[name] = String(value).trim();
    const field = /** @type {HTMLInputElement | null} */ (this.querySelector("[name=regex]"));
    this.#regex = null;
    field?.removeAttribute("aria-invalid");
    if (!field?.value) return;
    try {
      this.#regex = new RegExp(field.value, "i");
    } catch (error) {
      field.setAttribute("aria-invalid", "true");
      toast(error instanceof SyntaxError ? error.message : "Not a regular expression");
    }
  }

  /** The server filters too; this is for what came before a filter, and for the regular expression. @param {TailEvent} event */
  #passes(event) {
    const { session, kind, status, q } = this.#wanted;
    if (session && event.session !== session && event.session_key !== session) return false;
    if (kind && !event.kind.startsWith(kind)) return false;
    if (status && event.status !== status) return false;
    const words = `${event.session} ${event.kind} ${event.name} ${event.text}`;
    if (q && !words.toLowerCase().includes(q.toLowerCase())) return false;
    return !this.#regex || this.#regex.test(words);
  }

  /** @param {TailEvent[]} events */
  #take(events) {
    const wanted = this.#regex ? events.filter((event) => this.#passes(event)) : events;
    this.#recent += events.length;
    if (!wanted.length) return;
    for (const event of wanted) this.#events.push(event);
    this.querySelector(".quickstart")?.remove();
    if (!this.#isFollowing) this.#unseen += wanted.length;
    if (this.#events.length > KEPT) {
      const gone = this.#events.length - Math.floor(KEPT * 0.9);
      this.#events.splice(0, gone);
      this.#from = (this.#events[0]?.seq ?? this.#from + 1) - 1;
      this.#before = [];
      // What the reader looks at stays where it is.
      if (!this.#isFollowing && this.#body) this.#body.scrollTop -= gone * ROW;
    }
    this.#drawSoon();
  }

  #drawSoon() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#frame = 0;
    const body = this.#body;
    if (!body) return;
    this.#sizer.style.height = `${this.#events.length * ROW}px`;
    if (this.#isFollowing) body.scrollTop = body.scrollHeight;
    const count = Math.min(this.#events.length, MAX_ROWS, Math.ceil(body.clientHeight / ROW) + 2 * SPARE);
    // Until they are moved, the rows of a longer list may hold the page open further down than this one reaches.
    const first = Math.max(0, Math.min(this.#events.length - count, Math.floor(body.scrollTop / ROW) - SPARE));
    while (this.#rows.length < count) {
      const row = newRow();
      this.#rows.push(row);
      this.#sizer.append(row);
    }
    while (this.#rows.length > count) this.#rows.pop()?.remove();
    for (let k = 0; k < count; k++) {
      const event = this.#events[first + k];
      const row = this.#rows[(first + k) % count];
      if (event && row) fill(row, event, first + k);
    }
    this.#none.hidden = count > 0 || !(this.#regex || Object.keys(this.#wanted).length);
    this.#newest.hidden = this.#isFollowing || !this.#unseen;
    setText(this.#newest, `${counted(this.#unseen, "new event")} below`);
  }

  #onScroll = () => {
    const body = this.#body;
    if (!body) return;
    this.#isFollowing = body.scrollHeight - body.scrollTop - body.clientHeight < ROW;
    if (this.#isFollowing) this.#unseen = 0;
    this.#drawSoon();
  };

  #follow() {
    this.#isFollowing = true;
    this.#unseen = 0;
    this.#drawSoon();
  }

  #tellRate() {
    const slot = this.querySelector("[data-slot=rate]");
    if (slot) setText(slot, this.#recent ? `${this.#recent}/s` : "");
    this.#recent = 0;
  }

  #onClick = (/** @type {MouseEvent} */ event) => {
    const action = event.target instanceof Element ? event.target.closest("[data-action]") : null;
    if (action?.getAttribute("data-action") === "clear") {
      this.#events = [];
      this.#before = [];
      if (this.#held) this.#held = [];
      this.#from = this.#socket?.seq ?? this.#from;
      this.#follow();
    } else if (action?.getAttribute("data-action") === "live" && this.#socket) {
      this.#socket.press(action);
      if (this.#held) {
        this.#held = null;
        this.#refilter();
      }
    }
  };

  #onFilter = () => {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#refilter(), FILTER_MS);
  };

  /** A wider filter must show what a narrower one held back, so the server reads again from where this page began. */
  #refilter() {
    this.#readFilters();
    const url = new URL(location.href);
    const regex = /** @type {HTMLInputElement | null} */ (this.querySelector("[name=regex]"))?.value ?? "";
    url.search = new URLSearchParams({ ...this.#wanted, ...(regex ? { regex } : {}) }).toString();
    history.replaceState(null, "", url);
    if (this.#socket?.paused) {
      // Who pauses to look filters what is there; the server is asked when the page goes on.
      this.#held ??= this.#events;
      this.#events = this.#held.filter((event) => this.#passes(event));
      this.#follow();
      return;
    }
    this.#events = this.#before.filter((event) => this.#passes(event));
    this.#follow();
    if (this.#socket) {
      this.#socket.seq = this.#from;
      this.#socket.restart();
    }
  }
}

function newRow() {
  return h(
    "div",
    { class: "tail-row", "data-testid": "tail-row" },
    h("span", { class: "at" }),
    h("a", {}),
    h("span", { class: "event" }, icon("span"), h("span", { class: "label" })),
    h("span", { class: "what" }),
    h("span", { class: "num soft" }),
  );
}

/** @param {HTMLElement} row @param {TailEvent} event @param {number} position */
function fill(row, event, position) {
  row.style.transform = `translateY(${position * ROW}px)`;
  if (row.dataset.seq === String(event.seq)) return;
  row.dataset.seq = String(event.seq);
  row.dataset.kind = event.kind;
  const kind = kindOf(event.kind);
  row.dataset.family = kind.family;
  row.dataset.status = event.status;
  const [at, link, what, words, used] = /** @type {HTMLElement[]} */ ([...row.children]);
  if (!at || !link || !what || !words || !used) return;
  setText(at, event.at === null ? "" : precise(event.at));
  at.title = event.at === null ? "" : exact(event.at);
  setText(link, event.session);
  link.setAttribute("href", `/sessions/${event.session_key}/#span=${encodeURIComponent(`${event.trace}:${event.id}`)}`);
  what.querySelector("use")?.setAttribute("href", `#i-${kind.icon}`);
  const label = what.querySelector(".label");
  if (label) setText(label, titleOf(event.kind, event.name));
  setText(words, toldOf(event));
  words.title = event.text;
  setText(used, event.tokens === null ? "" : shortTokens(event.tokens));
}

/** What there is to say beside the name: what the server says, else that it began or how long it took. @param {TailEvent} event */
function toldOf(event) {
  if (event.end === null && event.start !== null) return event.text ? `started: ${event.text}` : "started";
  if (event.text && event.text !== event.name) return event.text;
  const took = event.start === null || event.end === null ? -1 : event.end - event.start;
  return event.kind.startsWith("compact.") || took < 0 ? "" : `took ${duration(took)}`;
}

customElements.define("event-tail", EventTail);
