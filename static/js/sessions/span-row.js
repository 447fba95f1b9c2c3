// @ts-check
// One row of the span tree. Rows are reused while scrolling, so `show` changes only what differs from the last span.
import { h, icon, setText } from "../dom.js";
import { duration, shortTokens, tokens } from "../format.js";
import { kindOf } from "../kinds.js";

// Deeper rows aren't indented further, so that their names stay visible.
const MAX_INDENT = 16;
// Token bars below this percentage would look like specks. They are left out.
const MIN_SHARE = 4;

/**
 * `detail` is what follows the title: the arguments of a tool, the model and the calls of a turn, or a message.
 * @typedef {{ at: number, position: number, count: number, kind: string, title: string, result: string, status: string,
 *   start: number | null, end: number | null, used: number | null, level: number, descendants: number, isExpanded: boolean,
 *   isSelected: boolean, isMatch: boolean, from: number, to: number, now: number, window: number, isTurn: boolean,
 *   model: string, detail: string, errors: number, chip: import("./turn-summary.js").Chip | null }} RowData
 */

export class SpanRow {
  kind = "";
  /** A running span grows. */ isChanging = false;
  #source;
  #twisty = h("span", { class: "twisty", "aria-hidden": "true" });
  #icon = icon("span");
  #label = h("span", { class: "label" });
  #model = h("span", { class: "model" });
  #detail = h("span", { class: "detail" });
  #suffix = h("span", { class: "kind faint" });
  #chip = h("span", { class: "chip", "data-testid": "headroom", hidden: true });
  #text = h("span", { class: "cell-text" }, this.#twisty, this.#icon, this.#label, this.#model, this.#detail, this.#suffix);
  #name = h("span", { class: "cell-name" }, this.#text, this.#chip);
  #tokens = h("span", { class: "cell-tokens num" });
  #time = h("span", { class: "cell-time num" });
  #bar = h("span", { class: "bar" });
  #barCell = h("span", { class: "cell-bar", "aria-hidden": "true" }, this.#bar);
  // A turn is a row of its own kind, and also the row of a span.
  #cells = h("div", { class: "cells" }, this.#name, this.#tokens, this.#time, this.#barCell);
  #element = h("div", { class: "span-row", role: "treeitem", "data-testid": "span-row" }, this.#cells);
  elements = [this.#element];
  /** Last value of every attribute and style. @type {Map<string, string>} */ #values = new Map();

  /** @param {(at: number, position: number) => RowData} source returns what the row of a span shows */
  constructor(source) {
    this.#source = source;
  }

  /** @param {number} at @param {number} position */
  show(at, position) {
    const data = this.#source(at, position);
    const { kind, start, end, level, descendants } = data;
    this.isChanging = end === null && start !== null;
    this.#setAttribute("id", `span-${at}`);
    this.#setAttribute("data-at", String(at));
    this.#setAttribute("data-status", this.isChanging ? "running" : data.status);
    this.#setAttribute("aria-level", String(level + 1));
    this.#setAttribute("aria-posinset", String(data.position + 1));
    this.#setAttribute("aria-setsize", String(data.count));
    this.#setAttribute("aria-expanded", descendants ? String(data.isExpanded) : null);
    this.#setAttribute("aria-selected", String(data.isSelected));
    this.#setAttribute("data-found", data.isMatch ? "" : null);
    this.#setAttribute("data-compaction", data.result ? "" : null);
    this.#setTurn(data);
    this.#setKind(data.isTurn ? "turn" : kind);
    this.#setAttribute("data-kind", kind);
    this.#setStyle(this.#text, "--level", String(Math.min(level, MAX_INDENT)));
    setText(this.#label, data.title.slice(0, 200));
    setText(this.#suffix, suffixOf(data));
    setText(this.#model, data.model);
    // The arguments of a tool follow its name directly.
    setText(this.#detail, data.detail && !data.detail.startsWith("(") ? ` ${data.detail}` : data.detail);
    this.#drawChip(data);
    this.#drawTokens(data);
    this.#drawTime(data);
  }

  /** @param {RowData} data */
  #setTurn({ isTurn, errors }) {
    this.#setAttribute("data-testid", isTurn ? "turn-row" : "span-row");
    this.#setAttribute("data-turn", isTurn ? "" : null);
    this.#setAttribute("data-errors", isTurn && errors ? String(errors) : null);
    if (isTurn) this.#cells.setAttribute("data-testid", "span-row");
    else this.#cells.removeAttribute("data-testid");
  }

  /** @param {RowData} data */
  #drawChip({ chip }) {
    this.#chip.hidden = !chip;
    if (!chip) return;
    setText(this.#chip, chip.text);
    this.#chip.dataset.tone = chip.tone;
    this.#chip.title = chip.title;
  }

  /** @param {string} kind */
  #setKind(kind) {
    if (this.kind === kind && this.#values.has("data-family")) return;
    this.kind = kind;
    const { icon, family } = kindOf(kind);
    this.#setAttribute("data-family", family);
    this.#icon.firstElementChild?.setAttribute("href", `#i-${icon}`);
  }

  /** @param {RowData} data */
  #drawTokens({ used, window }) {
    setText(this.#tokens, used === null ? "" : shortTokens(used));
    const share = Math.min(100, ((used ?? 0) / Math.max(1, window)) * 100);
    this.#setStyle(this.#tokens, "background-size", `${share < MIN_SHARE ? 0 : share}% 2px`);
  }

  /** @param {RowData} data */
  #drawTime({ start, end, from, to, now }) {
    if (start === null) {
      this.#bar.hidden = true;
      setText(this.#time, "");
      return;
    }
    const endTime = end ?? Math.max(now, to);
    setText(this.#time, duration(this.isChanging ? Math.max(0, now - start) : endTime - start));
    const length = Math.max(1, to - from);
    // Clamp here instead of clipping in CSS: 40 clipped cells cost a quarter of the time of a frame.
    const left = Math.max(0, (start - from) / length);
    const right = Math.min(1, (Math.max(start, endTime) - from) / length);
    this.#bar.hidden = right < 0 || left > 1;
    this.#setStyle(this.#bar, "left", `${left * 100}%`);
    this.#setStyle(this.#bar, "width", `${Math.max(0, right - left) * 100}%`);
  }

  /** @param {string} name @param {string | null} value */
  #setAttribute(name, value) {
    if (this.#values.get(name) === (value ?? undefined)) return;
    if (value === null) {
      this.#values.delete(name);
      this.#element.removeAttribute(name);
    } else {
      this.#values.set(name, value);
      this.#element.setAttribute(name, value);
    }
  }

  /** @param {HTMLElement} element @param {string} name @param {string} value */
  #setStyle(element, name, value) {
    if (this.#values.get(name) === value) return;
    this.#values.set(name, value);
    element.style.setProperty(name, value);
  }
}

/** @param {RowData} data */
function suffixOf({ result, level, descendants, isExpanded, isTurn }) {
  if (result || isTurn) return result;
  if (level > MAX_INDENT) return `level ${level}`;
  return descendants && !isExpanded ? `${tokens(descendants)} hidden` : "";
}
