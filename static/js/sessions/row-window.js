// @ts-check
// Draws the rows of the span tree that are on screen, and reuses their elements while scrolling.
import { h } from "../dom.js";
import { ROW_HEIGHT, SpanRow } from "./span-row.js";

// Extra rows above and below, so that fast scrolling shows no blank space.
const OVERSCAN_ROWS = 6;
const MAX_ROWS = 80;
// After a jump, such as a dragged scrollbar, the extra rows are drawn only once scrolling rests.
const REST_MS = 100;

/** @typedef {(at: number, position: number, now: number) => import("./span-row.js").RowData} RowSource */

export class RowWindow {
  /** Spans to show, in order. @type {Int32Array} */ rows = new Int32Array(0);
  /** Called with the spans that are about to be drawn. @type {((drawn: Int32Array) => void) | null} */ onDraw = null;
  scroller = h("div", { class: "tree-scroll", role: "tree", tabindex: "0", "aria-label": "Spans" });
  #sizer = h("div", { class: "tree-sizer", role: "presentation" });
  #source;
  /** @type {Map<number, SpanRow>} */ #mounted = new Map();
  /** @type {SpanRow[]} */ #pool = [];
  // Rows of an older version are drawn again. Scrolling only fills rows that come into view.
  #version = 0;
  #frame = 0;
  #lastTop = 0;
  #restTimer = 0;

  /** @param {RowSource} source returns the data of a row */
  constructor(source) {
    this.#source = source;
    this.scroller.append(this.#sizer);
    this.scroller.addEventListener("scroll", () => this.drawSoon(), { passive: true });
  }

  /** @param {Int32Array} rows */
  setRows(rows) {
    this.rows = rows;
    this.#sizer.style.height = `${rows.length * ROW_HEIGHT}px`;
    this.invalidate();
  }

  /** Draw all mounted rows again in the next frame. */
  invalidate() {
    this.#version++;
    this.drawSoon();
  }

  /** Draw all mounted rows again right away. */
  redraw() {
    this.#version++;
    this.draw();
  }

  drawSoon() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.draw());
  }

  stop() {
    clearTimeout(this.#restTimer);
  }

  /** Number of rows that fit on the screen. */
  get pageSize() {
    return Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 1);
  }

  /** Spans that are completely visible. */
  get visible() {
    const { scrollTop, clientHeight } = this.scroller;
    return this.rows.subarray(Math.ceil(scrollTop / ROW_HEIGHT), Math.floor((scrollTop + clientHeight) / ROW_HEIGHT));
  }

  /** Scroll a row to the top. @param {number} position */
  scrollToTop(position) {
    this.scroller.scrollTop = Math.max(0, position) * ROW_HEIGHT;
  }

  /** Scroll only if the row is out of view. @param {number} position */
  scrollIntoView(position) {
    if (position < 0) return;
    const top = position * ROW_HEIGHT;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = Math.max(0, top - 2 * ROW_HEIGHT);
    else if (top + ROW_HEIGHT > scrollTop + clientHeight) {
      // A multiple of the height, so that no row is cut off below the header.
      this.scroller.scrollTop = Math.ceil((top + 3 * ROW_HEIGHT - clientHeight) / ROW_HEIGHT) * ROW_HEIGHT;
    }
  }

  draw() {
    this.#frame = 0;
    const [first, last] = this.#drawnRange();
    this.onDraw?.(this.rows.subarray(first, last));
    const wanted = new Set(this.rows.subarray(first, last));
    for (const [at, row] of this.#mounted) {
      if (wanted.has(at)) continue;
      this.#mounted.delete(at);
      this.#pool.push(row);
    }
    const now = Date.now();
    for (let position = first; position < last; position++) this.#drawRow(position, now);
    // Unused rows must not stay in the document, where screen readers would find them.
    for (const row of this.#pool.splice(0)) row.element.remove();
  }

  /** @param {number} position @param {number} now */
  #drawRow(position, now) {
    const at = this.rows[position] ?? 0;
    let row = this.#mounted.get(at);
    if (row && row.version === this.#version && !row.isRunning) return;
    const data = this.#source(at, position, now);
    if (!row) this.#mounted.set(at, (row = this.#takeRow(data.isTurn ? "turn" : data.kind)));
    row.version = this.#version;
    row.show(data);
  }

  /** First and last position to draw. @returns {[number, number]} */
  #drawnRange() {
    const { scrollTop, clientHeight } = this.scroller;
    const overscan = this.#overscan(scrollTop, clientHeight);
    const first = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - overscan);
    const count = Math.min(MAX_ROWS, Math.ceil(clientHeight / ROW_HEIGHT) + 1 + 2 * overscan);
    return [first, Math.min(this.rows.length, first + count)];
  }

  /** @param {number} top @param {number} height */
  #overscan(top, height) {
    const isJump = Math.abs(top - this.#lastTop) > height;
    this.#lastTop = top;
    if (!isJump) return OVERSCAN_ROWS;
    clearTimeout(this.#restTimer);
    this.#restTimer = window.setTimeout(() => this.drawSoon(), REST_MS);
    return 0;
  }

  /** Take a row from the pool, preferably one of the same kind, whose icon and colors fit. @param {string} kind */
  #takeRow(kind) {
    const sameKind = this.#pool.findIndex((row) => row.kind === kind);
    const pooled = sameKind >= 0 ? this.#pool.splice(sameKind, 1)[0] : this.#pool.pop();
    if (pooled) return pooled;
    const row = new SpanRow();
    this.#sizer.append(row.element);
    return row;
  }
}
