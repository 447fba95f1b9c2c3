// @ts-check
// Draws the rows of a long list that are on screen, between two empty rows that are as high as all the others. A row keeps
// its element while it is on screen. After that, another row gets the element.
import { h } from "./dom.js";

// Extra rows above and below, so that fast scrolling shows no blank space.
const OVERSCAN_ROWS = 6;
// Enough for the tallest screens. Limits the rows if the page is laid out without a height.
const MAX_ROWS = 160;
// After a jump, such as a dragged scrollbar, the extra rows are drawn only once scrolling rests.
const REST_MS = 100;

/**
 * `elements` are the row and what is open below it. A row that is changing shows the time and is drawn each time.
 * @template T
 * @typedef {{ elements: Element[], show: (item: T, position: number) => void, kind?: string, isChanging?: boolean }} Row
 */
/**
 * `height` is the CSS property with the height of a row. `kindOf` names items whose rows look alike. With `isComplete`, all
 * rows are drawn. `empty` is shown without items.
 * @template T
 * @typedef {{
 *   scroller: HTMLElement, body: HTMLElement, height: string, create: () => Row<T>, keyOf: (item: T) => unknown,
 *   kindOf?: (item: T) => string, isComplete?: () => boolean, overscan?: number, empty?: HTMLElement,
 * }} Options
 */

/** @template T */
export class WindowedList {
  /** @type {ArrayLike<T>} */ items = [];
  /** Keeps the last row in view. */ isFollowing = false;
  /** Called with the items that are about to be drawn. @type {((drawn: T[]) => void) | null} */ onDraw = null;
  #options;
  #rowHeight = 0;
  /** @type {Map<unknown, { row: Row<T>, version: number }>} */ #mounted = new Map();
  // Rows of an older version are drawn again. Scrolling only fills rows that come into view.
  #version = 0;
  #frame = 0;
  #lastTop = 0;
  #restTimer = 0;
  /** @type {HTMLElement} */ #above;
  /** @type {HTMLElement} */ #below;
  #observer = new ResizeObserver(() => this.measure());

  /** @param {Options<T>} options */
  constructor(options) {
    this.#options = options;
    this.scroller = options.scroller;
    this.#above = createGap(options.body);
    this.#below = createGap(options.body);
  }

  /** Draw on scrolling and whenever the size of the list changes, which it does first when it is laid out. */
  start() {
    this.scroller.addEventListener("scroll", this.#onScroll, { passive: true });
    this.#observer.observe(this.scroller);
  }

  stop() {
    this.scroller.removeEventListener("scroll", this.#onScroll);
    this.#observer.disconnect();
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#restTimer);
    this.#frame = 0;
  }

  #onScroll = () => this.drawSoon();

  /** @param {ArrayLike<T>} items */
  setItems(items) {
    this.items = items;
    this.invalidate();
  }

  /** Keep the first rows, which came with the page, until the list is drawn, and make room for the others. @param {ArrayLike<T>} items */
  adoptItems(items) {
    this.items = items;
    const { body, height } = this.#options;
    this.#below.style.height = `calc(${items.length - body.children.length} * var(${height}))`;
    body.append(this.#below);
  }

  /** Read the height of a row from the styles again, and draw. */
  measure() {
    this.#rowHeight = 0;
    this.invalidate();
  }

  get rowHeight() {
    this.#rowHeight ||= parseFloat(getComputedStyle(this.scroller).getPropertyValue(this.#options.height)) || 28;
    return this.#rowHeight;
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

  /** Number of rows that fit on the screen. */
  get pageSize() {
    return Math.max(1, Math.floor(this.scroller.clientHeight / this.rowHeight) - 1);
  }

  /** First and last position that is completely visible. @returns {[number, number]} */
  get visible() {
    const { scrollTop, clientHeight } = this.scroller;
    return [Math.ceil(scrollTop / this.rowHeight), Math.floor((scrollTop + clientHeight) / this.rowHeight)];
  }

  /** Scroll a row to the top. @param {number} position */
  scrollToTop(position) {
    this.#drawPending();
    this.scroller.scrollTop = Math.max(0, position) * this.rowHeight;
  }

  /** Scroll only if the row is out of view. @param {number} position */
  scrollIntoView(position) {
    if (position < 0) return;
    this.#drawPending();
    const { rowHeight } = this;
    const top = position * rowHeight;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = Math.max(0, top - 2 * rowHeight);
    else if (top + rowHeight > scrollTop + clientHeight) {
      // A multiple of the height, so that no row is cut off below the header.
      this.scroller.scrollTop = Math.ceil((top + 3 * rowHeight - clientHeight) / rowHeight) * rowHeight;
    }
  }

  /** Give a list with new items its height, before it is scrolled. */
  #drawPending() {
    if (this.#frame) this.draw();
  }

  draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const [first, last] = this.#drawnRange();
    const drawn = Array.from({ length: last - first }, (_, i) => /** @type {T} */ (this.items[first + i]));
    this.onDraw?.(drawn);
    const pool = this.#release(new Set(drawn.map(this.#options.keyOf)));
    const rows = drawn.flatMap((item, i) => this.#drawRow(item, first + i, pool));
    this.#place(rows, first, this.items.length - last);
    if (this.isFollowing) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** Take the rows that left the window out of the document, where screen readers would find them. @param {Set<unknown>} wanted */
  #release(wanted) {
    /** @type {Row<T>[]} */ const pool = [];
    for (const [key, { row }] of this.#mounted) {
      if (wanted.has(key)) continue;
      this.#mounted.delete(key);
      for (const element of row.elements) element.remove();
      pool.push(row);
    }
    return pool;
  }

  /** @param {T} item @param {number} position @param {Row<T>[]} pool */
  #drawRow(item, position, pool) {
    const key = this.#options.keyOf(item);
    let mounted = this.#mounted.get(key);
    if (!mounted) this.#mounted.set(key, (mounted = { row: this.#takeRow(item, pool), version: -1 }));
    const { row } = mounted;
    if (mounted.version !== this.#version || row.isChanging) row.show(item, position);
    mounted.version = this.#version;
    return row.elements;
  }

  /** Take a row from the pool, preferably one of the same kind, whose icon and colors fit. @param {T} item @param {Row<T>[]} pool */
  #takeRow(item, pool) {
    const kind = this.#options.kindOf?.(item);
    const sameKind = kind === undefined ? -1 : pool.findIndex((row) => row.kind === kind);
    return (sameKind >= 0 ? pool.splice(sameKind, 1)[0] : pool.pop()) ?? this.#options.create();
  }

  /** Put the rows into the document, and move only those that are in another place. @param {Element[]} rows @param {number} above @param {number} below */
  #place(rows, above, below) {
    const { body, empty } = this.#options;
    const elements = [...this.#gap(this.#above, above), ...rows, ...this.#gap(this.#below, below)];
    if (empty && !this.items.length) elements.push(empty);
    let next = body.firstElementChild;
    for (const element of elements) {
      if (element === next) next = next.nextElementSibling;
      else body.insertBefore(element, next);
    }
    while (next) {
      const rest = next.nextElementSibling;
      next.remove();
      next = rest;
    }
  }

  /** Make an empty row as high as `count` rows. @param {HTMLElement} gap @param {number} count */
  #gap(gap, count) {
    gap.style.height = `${count * this.rowHeight}px`;
    return count ? [gap] : [];
  }

  /** First position to draw, and the one after the last. @returns {[number, number]} */
  #drawnRange() {
    const total = this.items.length;
    if (this.#options.isComplete?.()) return [0, total];
    const { scrollTop, clientHeight } = this.scroller;
    const overscan = this.#overscan(scrollTop, clientHeight);
    const count = Math.min(total, MAX_ROWS, Math.ceil(clientHeight / this.rowHeight) + 1 + 2 * overscan);
    // The scroll position can still be that of a longer list.
    const last = total - count;
    const first = this.isFollowing ? last : Math.max(0, Math.min(last, Math.floor(scrollTop / this.rowHeight) - overscan));
    return [first, first + count];
  }

  /** @param {number} top @param {number} height */
  #overscan(top, height) {
    const isJump = Math.abs(top - this.#lastTop) > height;
    this.#lastTop = top;
    const overscan = this.#options.overscan ?? OVERSCAN_ROWS;
    if (!isJump || this.isFollowing) return overscan;
    clearTimeout(this.#restTimer);
    this.#restTimer = window.setTimeout(() => this.drawSoon(), REST_MS);
    return 0;
  }
}

/** Return an empty row for a list of this kind. In a table, it needs a cell for its height. @param {HTMLElement} body */
function createGap(body) {
  const columns = body.closest("table")?.rows[0]?.cells.length;
  if (!columns) return h("div", { class: "gap", role: "presentation" });
  return h("tr", { class: "gap", "aria-hidden": "true" }, h("td", { colspan: columns }));
}
