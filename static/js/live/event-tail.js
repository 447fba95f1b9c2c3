// @ts-check
// <event-tail>: live events of all sessions. Follows the newest event unless the user scrolls up.
import { h, icon, problem, setText } from "../dom.js";
import { clockMs, duration, exactTime, pluralize, shortTokens } from "../format.js";
import { kindOf, kindsWith, titleOf } from "../kinds.js";
import { LiveSocket } from "../live-socket.js";
import { WindowedList } from "../windowed-list.js";

/**
 * @typedef {{ seq: number, session: string, session_key: string, trace: string, id: string, kind: string, name: string,
 *   status: string, at: number | null, start: number | null, end: number | null, tokens: number | null,
 *   text: string }} TailEvent
 */

// Beyond this many events, the oldest tenth is dropped at once.
const MAX_EVENTS = 20_000;
const FILTER_DELAY_MS = 200;
// Events after which the prompt is smaller.
const COMPACTIONS = kindsWith("shrinks-prompt");

export class EventTail extends HTMLElement {
  /** @type {LiveSocket | null} */ #socket = null;
  /** @type {TailEvent[]} */ #events = [];
  /** Events rendered with the page, before filtering. @type {TailEvent[]} */ #initial = [];
  /** Events at the time when a filter changed during a pause. @type {TailEvent[] | null} */ #pausedEvents = null;
  #filterTimer = 0;
  #rateTimer = 0;
  #unseenCount = 0;
  /** Sequence number before the first event, from which the websocket restarts. */ #startSeq = 0;
  /** Events received since the rate was shown. */ #recentCount = 0;
  /** Filters that the server applies too. @type {Record<string, string>} */ #filters = {};
  /** @type {RegExp | null} */ #regex = null;
  #newestButton = h("button", { class: "button primary tail-newest", type: "button", hidden: true });
  #noMatches = h(
    "div",
    { class: "empty tail-empty", role: "status", hidden: true },
    "No events match these filters. New matches appear here automatically.",
  );
  /** @type {WindowedList<TailEvent>} */ #list = this.#createList();

  connectedCallback() {
    const body = this.#list.scroller;
    body.tabIndex = 0;
    body.setAttribute("role", "log");
    body.setAttribute("aria-label", "Live events");
    body.setAttribute("aria-live", "off");
    this.append(this.#newestButton, this.#noMatches);
    this.#startSeq = Number(this.dataset.lastSeq ?? 0);
    this.#readFilters();
    this.#initial = JSON.parse(document.getElementById("tail-first")?.textContent ?? "[]");
    this.#add(this.#initial.filter((event) => this.#isMatch(event)));
    this.#recentCount = 0;
    body.addEventListener("scroll", this.#onScroll, { passive: true });
    this.#list.start();
    this.#show();
    this.#newestButton.addEventListener("click", () => this.#follow());
    this.addEventListener("click", this.#onClick);
    this.addEventListener("input", this.#onInput);
    this.addEventListener("submit", (event) => event.preventDefault());
    this.#socket = new LiveSocket("/ws/tail/", {
      after: this.#startSeq,
      query: () => ({ project: this.dataset.project ?? "", ...this.#filters }),
      count: (frame) => frame.events?.length ?? 1,
      onFrame: (frame) => frame.events && this.#add(frame.events),
    });
    this.#rateTimer = window.setInterval(() => this.#showRate(), 1000);
  }

  disconnectedCallback() {
    this.#socket?.close();
    this.#list.stop();
    clearInterval(this.#rateTimer);
    clearTimeout(this.#filterTimer);
  }

  #createList() {
    const body = /** @type {HTMLElement} */ (this.querySelector(".tail-body"));
    const list = new WindowedList({
      scroller: body,
      body,
      height: "--tail-row",
      create: () => new TailRow(),
      keyOf: (/** @type {TailEvent} */ event) => event.seq,
    });
    list.isFollowing = true;
    return list;
  }

  get #regexField() {
    return /** @type {HTMLInputElement | null} */ (this.querySelector("[name=regex]"));
  }

  /** Read the form once per change, because reading it for every event would be slow. */
  #readFilters() {
    const form = this.querySelector("form");
    this.#filters = {};
    for (const [name, value] of form ? new FormData(form) : []) {
      if (name !== "regex" && value) this.#filters[name] = String(value).trim();
    }
    const field = this.#regexField;
    this.#regex = null;
    field?.removeAttribute("aria-invalid");
    if (!field?.value) return;
    try {
      this.#regex = new RegExp(field.value, "i");
    } catch (error) {
      field.setAttribute("aria-invalid", "true");
      problem(error instanceof SyntaxError ? error.message : "Invalid regular expression");
    }
  }

  /** Apply all filters. The server applies them to live events, except for the regular expression. @param {TailEvent} event */
  #isMatch(event) {
    const { session, kind, status, q } = this.#filters;
    if (session && event.session !== session && event.session_key !== session) return false;
    if (kind && !event.kind.startsWith(kind)) return false;
    if (status && event.status !== status) return false;
    const text = `${event.session} ${event.kind} ${event.name} ${event.text}`;
    if (q && !text.toLowerCase().includes(q.toLowerCase())) return false;
    return !this.#regex || this.#regex.test(text);
  }

  /** @param {TailEvent[]} events */
  #add(events) {
    const matches = this.#regex ? events.filter((event) => this.#isMatch(event)) : events;
    this.#recentCount += events.length;
    if (!matches.length) return;
    for (const event of matches) this.#events.push(event);
    this.querySelector(".quickstart")?.remove();
    if (!this.#list.isFollowing) this.#unseenCount += matches.length;
    if (this.#events.length > MAX_EVENTS) this.#dropOldest();
    this.#show();
  }

  #dropOldest() {
    const count = this.#events.length - Math.floor(MAX_EVENTS * 0.9);
    this.#events.splice(0, count);
    this.#startSeq = (this.#events[0]?.seq ?? this.#startSeq + 1) - 1;
    this.#initial = [];
    // Keep the events that the user is reading in place.
    if (!this.#list.isFollowing) this.#list.scroller.scrollTop -= count * this.#list.rowHeight;
  }

  #show() {
    this.#list.items = this.#events;
    this.#list.drawSoon();
    this.#noMatches.hidden = this.#events.length > 0 || !(this.#regex || Object.keys(this.#filters).length);
    this.#newestButton.hidden = this.#list.isFollowing || !this.#unseenCount;
    setText(this.#newestButton, pluralize(this.#unseenCount, "new event"));
  }

  #onScroll = () => {
    const { scroller, rowHeight } = this.#list;
    this.#list.isFollowing = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < rowHeight;
    if (this.#list.isFollowing) this.#unseenCount = 0;
    this.#show();
  };

  /**
   * Focus the next or previous event, or compaction. Without a focus, start at the newest. Returns true if there is one.
   * @param {number} step
   * @param {boolean} onlyCompactions
   */
  moveFocus(step, onlyCompactions) {
    const isWanted = (/** @type {TailEvent} */ event) => !onlyCompactions || COMPACTIONS.has(event.kind);
    const row = document.activeElement?.closest(".tail-row");
    const at = row ? this.#events.findIndex((event) => String(event.seq) === row.getAttribute("data-seq")) : -1;
    const isForward = at >= 0 && step > 0;
    const index = isForward
      ? this.#events.findIndex((event, i) => i > at && isWanted(event))
      : this.#events.findLastIndex((event, i) => (at < 0 || i < at) && isWanted(event));
    if (index >= 0) this.#focus(index);
    return index >= 0;
  }

  /** Scroll to an event, focus its link, and stop following new events. @param {number} index */
  #focus(index) {
    this.#list.isFollowing = false;
    this.#list.scrollIntoView(index);
    this.#list.draw();
    /** @type {HTMLElement | null} */ (this.querySelector(`.tail-row[data-seq="${this.#events[index]?.seq}"] a`))?.focus({ preventScroll: true });
  }

  /** Scroll to the newest event and follow new ones. */
  #follow() {
    this.#list.isFollowing = true;
    this.#unseenCount = 0;
    this.#show();
  }

  #showRate() {
    const slot = this.querySelector("[data-slot=rate]");
    if (slot) setText(slot, this.#recentCount ? `${this.#recentCount}/s` : "");
    this.#recentCount = 0;
  }

  #onClick = (/** @type {MouseEvent} */ event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-action]") : null;
    const action = button?.getAttribute("data-action");
    if (action === "clear") this.#clear();
    else if (button && action === "live" && this.#socket) {
      this.#socket.toggleFrom(button);
      if (this.#pausedEvents) {
        this.#pausedEvents = null;
        this.#applyFilters();
      }
    }
  };

  #clear() {
    this.#events = [];
    this.#initial = [];
    if (this.#pausedEvents) this.#pausedEvents = [];
    this.#startSeq = this.#socket?.seq ?? this.#startSeq;
    this.#follow();
  }

  #onInput = () => {
    clearTimeout(this.#filterTimer);
    this.#filterTimer = window.setTimeout(() => this.#applyFilters(), FILTER_DELAY_MS);
  };

  /**
   * Apply changed filters. The server sends the events since the start of the page again, because a wider filter can match
   * events that it left out before. While paused, only the present events are filtered.
   */
  #applyFilters() {
    this.#readFilters();
    this.#updateAddress();
    if (this.#socket?.isPaused) {
      this.#pausedEvents ??= this.#events;
      this.#events = this.#pausedEvents.filter((event) => this.#isMatch(event));
      this.#follow();
      return;
    }
    this.#events = this.#initial.filter((event) => this.#isMatch(event));
    this.#follow();
    if (this.#socket) {
      this.#socket.seq = this.#startSeq;
      this.#socket.restart();
    }
  }

  #updateAddress() {
    const url = new URL(location.href);
    const regex = this.#regexField?.value ?? "";
    url.search = new URLSearchParams({ ...this.#filters, ...(regex ? { regex } : {}) }).toString();
    history.replaceState(null, "", url);
  }
}

class TailRow {
  #time = h("span", { class: "at" });
  #link = h("a", {});
  #icon = icon("span");
  #label = h("span", { class: "label" });
  #details = h("span", { class: "what" });
  #used = h("span", { class: "num soft" });
  #title = h("span", { class: "event" }, this.#icon, this.#label);
  #element = h("div", { class: "tail-row", "data-testid": "tail-row" }, this.#time, this.#link, this.#title, this.#details, this.#used);
  elements = [this.#element];

  /** @param {TailEvent} event */
  show(event) {
    const kind = kindOf(event.kind);
    Object.assign(this.#element.dataset, { seq: event.seq, kind: event.kind, family: kind.family, status: event.status });
    setText(this.#time, event.at === null ? "" : clockMs(event.at));
    this.#time.title = event.at === null ? "" : exactTime(event.at);
    setText(this.#link, event.session);
    this.#link.setAttribute("href", `/sessions/${event.session_key}/#span=${encodeURIComponent(`${event.trace}:${event.id}`)}`);
    this.#icon.querySelector("use")?.setAttribute("href", `#i-${kind.icon}`);
    setText(this.#label, titleOf(event.kind, event.name));
    setText(this.#details, describeEvent(event));
    this.#details.title = event.text;
    setText(this.#used, event.tokens === null ? "" : shortTokens(event.tokens));
  }
}

/** Describe an event beside its title: the server's text, or that it started, or its duration. @param {TailEvent} event */
function describeEvent(event) {
  if (event.end === null && event.start !== null) return event.text ? `Started: ${event.text}` : "Started";
  if (event.text && event.text !== event.name) return event.text;
  const ms = event.start === null || event.end === null ? -1 : event.end - event.start;
  return event.kind.startsWith("compact.") || ms < 0 ? "" : `Took ${duration(ms)}`;
}

customElements.define("event-tail", EventTail);
