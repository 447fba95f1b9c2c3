// @ts-check
// Loads the lines of the rows on screen: arguments of tools, messages of warnings and errors. Scrolling past rows loads none.
import { kindsWith } from "../kinds.js";
import { store } from "./store.js";

const DELAY_MS = 60;
// Keeps the address of a request short.
const MAX_SPANS = 50;

export class LineLoader {
  /** @type {Set<string>} */ #requested = new Set();
  /** @type {string[]} */ #wanted = [];
  #timer = 0;

  /** @param {string} session */
  constructor(session) {
    this.session = session;
  }

  /** Load the lines of these spans, unless they are known. @param {Iterable<number>} drawn positions */
  want(drawn) {
    const { kind, status, end } = store.spans.columns;
    this.#wanted = [];
    for (const at of drawn) {
      if (!hasLine(kind[at] ?? "", status[at] ?? "")) continue;
      const key = store.spans.key(at);
      // A span that ended may have an error since.
      if (!this.#requested.has(`${key}\n${status[at]}${end[at] == null}`)) this.#wanted.push(key);
    }
    clearTimeout(this.#timer);
    if (this.#wanted.length) this.#timer = window.setTimeout(() => this.#load(), DELAY_MS);
  }

  stop() {
    clearTimeout(this.#timer);
  }

  #load() {
    const { status, end } = store.spans.columns;
    const keys = this.#wanted.slice(0, MAX_SPANS);
    const states = keys.map((key) => {
      const at = store.spans.findKey(key);
      return `${key}\n${status[at]}${end[at] == null}`;
    });
    for (const state of states) this.#requested.add(state);
    store.loadLines(this.session, keys).catch(() => {
      for (const state of states) this.#requested.delete(state);
    });
  }
}

/** Return true if spans of a kind have something to show after their title. @param {string} kind @param {string} status */
function hasLine(kind, status) {
  return status === "error" || LINE_KINDS.has(kind);
}

const LINE_KINDS = kindsWith("has-line");
