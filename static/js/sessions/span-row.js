// @ts-check
// One row of the tree. Changes only what differs from what it showed before: rows are used again as one scrolls.
import { h, icon, setText } from "../dom.js";
import { duration, shortTokens, tokens } from "../format.js";
import { kindOf } from "../kinds.js";

export const ROW = 28;
// Past this depth rows are no longer indented further, or a thousand levels would push the names out of sight.
const MAX_INDENT = 16;
const MIN_SHARE = 4;

/**
 * What a row shows.
 * @typedef {{ at: number, position: number, count: number, kind: string, title: string, result: string, status: string, start: number | null,
 *   end: number | null, used: number | null, level: number, inside: number, isOpen: boolean, isSelected: boolean,
 *   isFound: boolean, from: number, to: number, now: number, window: number }} Facts
 */

export class SpanRow {
  version = -1;
  kind = "";
  #twisty = h("span", { class: "twisty", "aria-hidden": "true" });
  #icon = icon("span");
  #label = h("span", { class: "label" });
  #suffix = h("span", { class: "kind faint" });
  #name = h("span", { class: "cell-name" }, this.#twisty, this.#icon, this.#label, this.#suffix);
  #tokens = h("span", { class: "cell-tokens num" });
  #time = h("span", { class: "cell-time num" });
  #bar = h("span", { class: "bar" });
  element = h("div", { class: "span-row", role: "treeitem", "data-testid": "span-row" }, this.#name, this.#tokens, this.#time, h("span", { class: "cell-bar", "aria-hidden": "true" }, this.#bar));
  /** @type {Map<string, string>} */ #known = new Map();

  /** @param {Facts} facts */
  show(facts) {
    const { at, kind, start, end, level, inside } = facts;
    const isRunning = end === null && start !== null;
    this.#style(this.element, "top", `${facts.position * ROW}px`);
    this.#set(this.element, "id", `span-${at}`);
    this.#set(this.element, "data-at", String(at));
    this.#set(this.element, "data-status", isRunning ? "running" : facts.status);
    this.#set(this.element, "aria-level", String(level + 1));
    this.#set(this.element, "aria-posinset", String(facts.position + 1));
    this.#set(this.element, "aria-setsize", String(facts.count));
    this.#set(this.element, "aria-expanded", inside ? String(facts.isOpen) : null);
    this.#set(this.element, "aria-selected", String(facts.isSelected));
    this.#set(this.element, "data-found", facts.isFound ? "" : null);
    if (this.kind !== kind || !this.#known.has("data-kind")) {
      this.kind = kind;
      this.#set(this.element, "data-kind", kind);
      const { icon, family } = kindOf(kind);
      this.#set(this.element, "data-family", family);
      this.#icon.firstElementChild?.setAttribute("href", `#i-${icon}`);
    }
    this.#style(this.#name, "padding-inline-start", `${Math.min(level, MAX_INDENT) * 14 + 4}px`);
    setText(this.#label, facts.title.slice(0, 200));
    this.#set(this.element, "data-compaction", facts.result ? "" : null);
    setText(this.#suffix, facts.result || (level > MAX_INDENT ? `level ${level}` : inside && !facts.isOpen ? `${tokens(inside)} inside` : ""));
    setText(this.#tokens, facts.used === null ? "" : shortTokens(facts.used));
    const share = Math.min(100, ((facts.used ?? 0) / Math.max(1, facts.window)) * 100);
    // A bar of a pixel would look like a speck.
    this.#style(this.#tokens, "background-size", `${share < MIN_SHARE ? 0 : share}% 2px`);
    this.#drawTime(facts, isRunning);
  }

  /** @param {Facts} facts @param {boolean} isRunning */
  #drawTime({ start, end, from, to, now }, isRunning) {
    if (start === null) {
      this.#bar.hidden = true;
      setText(this.#time, "");
      return;
    }
    const ended = end ?? Math.max(now, to);
    setText(this.#time, duration(isRunning ? Math.max(0, now - start) : ended - start));
    const whole = Math.max(1, to - from);
    // Cut here and not by the cell: forty cells that clip would cost a frame a quarter of its time.
    const left = Math.max(0, (start - from) / whole);
    const right = Math.min(1, (Math.max(start, ended) - from) / whole);
    this.#bar.hidden = right < 0 || left > 1;
    this.#style(this.#bar, "left", `${left * 100}%`);
    this.#style(this.#bar, "width", `${Math.max(0, right - left) * 100}%`);
  }

  /** @param {Element} element @param {string} name @param {string | null} value */
  #set(element, name, value) {
    if (this.#known.get(name) === (value ?? undefined)) return;
    if (value === null) {
      this.#known.delete(name);
      element.removeAttribute(name);
    } else {
      this.#known.set(name, value);
      element.setAttribute(name, value);
    }
  }

  /** @param {HTMLElement} element @param {string} name @param {string} value */
  #style(element, name, value) {
    if (this.#known.get(name) === value) return;
    this.#known.set(name, value);
    element.style.setProperty(name, value);
  }
}
