// @ts-check
// Draws the rows of a session that are on screen. Never fetches: the store does.
import { h, isTyping } from "../dom.js";
import { duration, tokens } from "../format.js";
import { titleOf } from "../kinds.js";
import { ROW, SpanRow } from "./span-row.js";
import { store } from "./store.js";
import { resultOf } from "./timeline/layout.js";
import { TreeTools } from "./tree-toolbar.js";
import { visibleRows } from "./tree.js";

// Rows beyond the edges, so that a quick flick of the wheel shows no blank; with a tall window still below 80.
const SPARE = 6;
const MAX_ROWS = 80;
// Spans that never ended say nothing of a session that has been silent for so long: its bars keep to what happened.
const SILENT_MS = 30 * 60_000;
// Rows beyond the edges wait until a scrollbar that is being dragged rests: the next frame would throw them away.
const REST_MS = 100;

class SpanTree extends HTMLElement {
  /** @type {(() => void)[]} */ #undo = [];
  /** Where the numbers in `#closed` and `#mounted` count from. @type {unknown} */ #spans = null;
  /** @type {Set<number>} */ #closed = new Set();
  /** @type {Int32Array} */ #rows = new Int32Array(0);
  #cursor = -1;
  /** @type {Map<number, { number: number, check: import("./store.js").Check }>} */ #compactions = new Map();
  /** @type {Map<number, SpanRow>} */ #mounted = new Map();
  /** @type {SpanRow[]} */ #pool = [];
  #frame = 0;
  #ticker = 0;
  #drawnTop = 0;
  #rest = 0;
  // Changes with everything that changes rows, so that scrolling fills only those that come into sight.
  #version = 0;
  /** @type {ResizeObserver | null} */ #resize = null;
  /** @type {HTMLElement} */ #scroller = h("div", { class: "tree-scroll", role: "tree", tabindex: "0", "aria-label": "Spans of the session" });
  /** @type {HTMLElement} */ #sizer = h("div", { class: "tree-sizer", role: "presentation" });
  #tools = new TreeTools({
    filter: () => this.#layout(),
    stepMatch: (step, stay) => this.#stepMatch(step, stay),
    stepError: () => this.#stepError(1),
    openAll: () => this.#openAll(),
    closeAll: () => this.#closeAll(),
    leave: () => this.#scroller.focus(),
  });

  connectedCallback() {
    this.#scroller.append(this.#sizer);
    this.#scroller.addEventListener("scroll", () => this.#drawSoon(), { passive: true });
    this.#scroller.addEventListener("keydown", this.#onKey);
    this.#scroller.addEventListener("click", this.#onClick);
    document.addEventListener("keydown", this.#onPageKey);
    this.#resize = new ResizeObserver(() => {
      this.#tools.leaveRoom(this.#scroller.offsetWidth - this.#scroller.clientWidth);
      this.#drawSoon();
    });
    this.#resize.observe(this.#scroller);
    this.#undo = [
      store.subscribe("spans", () => this.#layout()),
      store.subscribe("selected", () => this.#reveal()),
      store.subscribe("range", () => this.#followRange()),
      // The bars of tokens are shares of the window, and a check may be a compaction.
      store.subscribe("checks", () => {
        this.#noteCompactions();
        this.#renew();
        this.#drawSoon();
      }),
    ];
    // Running spans grow while nobody says anything.
    this.#ticker = window.setInterval(() => {
      if (!store.tree.running) return;
      this.#drawAxis();
      this.#renew();
      this.#drawSoon();
    }, 500);
  }

  disconnectedCallback() {
    for (const undo of this.#undo) undo();
    this.#resize?.disconnect();
    clearInterval(this.#ticker);
    clearTimeout(this.#rest);
    document.removeEventListener("keydown", this.#onPageKey);
  }

  /** Which rows there are; then draws. */
  #layout() {
    if (!store.isLoaded) return;
    if (!this.#scroller.isConnected) this.replaceChildren(this.#tools.element, this.#scroller);
    this.#renew();
    if (this.#spans !== store.spans) {
      this.#spans = store.spans;
      this.#closed.clear();
    }
    this.#noteCompactions();
    this.#cursor = store.selected ? store.spans.findKey(store.selected) : -1;
    const matches = this.#matcher();
    this.#rows = visibleRows(store.tree, this.#closed, matches);
    this.#sizer.style.height = `${this.#rows.length * ROW}px`;
    this.#tools.tellErrors(store.tree.errors);
    this.#tools.tellFound(this.#tools.find ? `${tokens(this.#matches().length)} found` : "");
    this.#drawAxis();
    this.#drawSoon();
  }

  /** @returns {((at: number) => boolean) | null} */
  #matcher() {
    const { kind, status, start, end } = store.spans.columns;
    const { kinds } = this.#tools;
    const isFinding = this.#tools.onlyMatches && this.#tools.find;
    if (!kinds && !isFinding) return null;
    return (at) => {
      if (kinds === "compact" && !kind[at]?.startsWith("compact.")) return false;
      if (kinds === "error" && status[at] !== "error") return false;
      if (kinds === "running" && (end[at] != null || start[at] == null)) return false;
      if (kinds && !["compact", "error", "running"].includes(kinds) && kind[at] !== kinds) return false;
      return !isFinding || this.#isFound(at);
    };
  }

  /** @param {number} at */
  #isFound(at) {
    const { kind, id } = store.spans.columns;
    const wanted = this.#tools.find;
    return Boolean(this.#titleOf(at).toLowerCase().includes(wanted) || kind[at]?.includes(wanted) || id[at]?.toLowerCase() === wanted);
  }

  /** A check that compacted is called by the number of its compaction. @param {number} at */
  #titleOf(at) {
    const { kind, name } = store.spans.columns;
    const found = this.#compactions.get(at);
    return found ? `Compaction ${found.number}` : titleOf(kind[at] ?? "", name[at] ?? "");
  }

  #noteCompactions() {
    this.#compactions = new Map(store.compactions.map((check, i) => [store.spans.findKey(check.span), { number: i + 1, check }]));
  }

  /** Every span that the text is found in, in the order of the tree, closed branches included. */
  #matches() {
    return this.#tools.find ? store.tree.order.filter((at) => this.#isFound(at)) : new Int32Array(0);
  }

  #renew() {
    this.#version++;
  }

  #drawSoon() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#frame = 0;
    const top = this.#scroller.scrollTop;
    const height = this.#scroller.clientHeight;
    const spare = this.#spareRows(top, height);
    const first = Math.max(0, Math.floor(top / ROW) - spare);
    const last = Math.min(this.#rows.length, first + Math.min(MAX_ROWS, Math.ceil(height / ROW) + 1 + 2 * spare));
    const wanted = new Set(this.#rows.subarray(first, last));
    for (const [at, row] of this.#mounted) {
      if (wanted.has(at)) continue;
      this.#mounted.delete(at);
      this.#pool.push(row);
    }
    const now = Date.now();
    const { end, start, kind } = store.spans.columns;
    for (let k = first; k < last; k++) {
      const at = this.#rows[k] ?? 0;
      let row = this.#mounted.get(at);
      const isRunning = end[at] == null && start[at] != null;
      if (!row) {
        row = this.#spareRow(kind[at] ?? "");
        this.#mounted.set(at, row);
      } else if (!isRunning && row.version === this.#version) continue;
      row.version = this.#version;
      row.show(this.#factsOf(at, k, now));
    }
    // A row in reserve would be found and read aloud where it no longer belongs.
    for (const row of this.#pool.splice(0)) row.element.remove();
  }

  /** How many rows to draw beyond the edges. @param {number} top @param {number} height */
  #spareRows(top, height) {
    const isJump = Math.abs(top - this.#drawnTop) > height;
    this.#drawnTop = top;
    if (!isJump) return SPARE;
    clearTimeout(this.#rest);
    this.#rest = window.setTimeout(() => this.#drawSoon(), REST_MS);
    return 0;
  }

  /** A row out of use, best one of the same kind: its icon and colours can stay. @param {string} kind */
  #spareRow(kind) {
    const same = this.#pool.findIndex((row) => row.kind === kind);
    const row = same >= 0 ? this.#pool.splice(same, 1)[0] : this.#pool.pop();
    if (row) return row;
    const made = new SpanRow();
    this.#sizer.append(made.element);
    return made;
  }

  /** @param {number} at @param {number} position @param {number} now */
  #factsOf(at, position, now) {
    const { kind, status, start, end, tokens: used } = store.spans.columns;
    const { depth, size } = store.tree;
    const [from, to] = this.#axisRange;
    const compacted = this.#compactions.get(at)?.check;
    return {
      at,
      position,
      count: this.#rows.length,
      kind: kind[at] ?? "",
      title: this.#titleOf(at),
      result: compacted ? resultOf(compacted) : "",
      status: status[at] ?? "",
      start: start[at] ?? null,
      end: end[at] ?? null,
      used: used[at] ?? null,
      level: depth[at] ?? 0,
      inside: (size[at] ?? 1) - 1,
      isOpen: !this.#closed.has(at),
      isSelected: at === this.#cursor,
      isFound: Boolean(this.#tools.find) && this.#isFound(at),
      from,
      to,
      now,
      window: store.windowTokens,
    };
  }

  #drawAxis() {
    const [from, to] = this.#axisRange;
    const began = from - store.tree.from;
    const words = [0, 0.5, 1].map((share) => (began + (to - from) * share < 1 ? "0" : duration(began + (to - from) * share)));
    this.#tools.tellAxis(words);
  }

  /** The times that the bars are drawn on: what the timeline shows, else the whole session, until now if it goes on. @returns {[number, number]} */
  get #axisRange() {
    if (store.range) return store.range;
    const { from, to, running } = store.tree;
    const now = Date.now();
    return [from, Math.max(from, to, running && now - to < SILENT_MS ? now : to)];
  }

  /** Bars on the times that the timeline shows, and rows from there if none of them is in sight. */
  #followRange() {
    this.#drawAxis();
    this.#renew();
    if (store.range) {
      const [from, to] = store.range;
      const { start } = store.spans.columns;
      const { scrollTop, clientHeight } = this.#scroller;
      const isInside = (/** @type {number} */ at) => (start[at] ?? -1) >= from && (start[at] ?? -1) < to;
      const inSight = this.#rows.subarray(Math.ceil(scrollTop / ROW), Math.floor((scrollTop + clientHeight) / ROW));
      const first = inSight.some(isInside) ? -1 : this.#rows.findIndex(isInside);
      if (first >= 0) this.#scroller.scrollTop = Math.max(0, first - 1) * ROW;
    }
    this.#drawSoon();
  }

  /** Opens what hides the selected span, and scrolls to it if it is out of sight. */
  #reveal() {
    const at = store.spans.findKey(store.selected);
    this.#cursor = at;
    if (at >= 0) {
      let changed = false;
      for (let up = store.tree.parent[at] ?? -1; up >= 0; up = store.tree.parent[up] ?? -1) changed = this.#closed.delete(up) || changed;
      if (changed) this.#layout();
      if (this.#rows.indexOf(at) < 0 && (this.#tools.kinds || this.#tools.onlyMatches)) this.#clearFilters();
      this.#scrollTo(this.#rows.indexOf(at));
      this.#scroller.setAttribute("aria-activedescendant", `span-${at}`);
    } else this.#scroller.removeAttribute("aria-activedescendant");
    this.#renew();
    this.#draw();
  }

  #clearFilters() {
    this.#tools.clear();
    this.#layout();
  }

  /** @param {number} position */
  #scrollTo(position) {
    if (position < 0) return;
    const top = position * ROW;
    const { scrollTop, clientHeight } = this.#scroller;
    if (top < scrollTop) this.#scroller.scrollTop = Math.max(0, top - 2 * ROW);
    else if (top + ROW > scrollTop + clientHeight) this.#scroller.scrollTop = top + 3 * ROW - clientHeight;
  }

  /** @param {number} position */
  #go(position) {
    const at = this.#rows[Math.max(0, Math.min(this.#rows.length - 1, position))];
    if (at !== undefined) store.select(store.spans.key(at));
  }

  /** @param {number} at */
  #toggle(at) {
    if ((store.tree.size[at] ?? 1) < 2) return;
    if (!this.#closed.delete(at)) this.#closed.add(at);
    this.#layout();
  }

  #openAll() {
    this.#closed.clear();
    this.#layout();
  }

  #closeAll() {
    const { order, depth, size } = store.tree;
    this.#closed = new Set(order.filter((at) => (size[at] ?? 1) > 1 && (depth[at] ?? 0) >= 0));
    this.#layout();
    this.#scroller.scrollTop = 0;
  }

  /** @param {number} step @param {boolean} [stay] whether the present one will do */
  #stepMatch(step, stay = false) {
    this.#stepAmong(this.#matches(), step, stay);
  }

  /** @param {number} step */
  #stepError(step) {
    const { status } = store.spans.columns;
    this.#stepAmong(store.tree.order.filter((at) => status[at] === "error"), step, false);
  }

  /** @param {Int32Array} found in the order of the tree @param {number} step @param {boolean} stay */
  #stepAmong(found, step, stay) {
    if (!found.length) return;
    // How many of them come before the cursor, and whether it is on one: both lists are in one order, so one pass tells.
    let before = 0;
    for (const at of this.#cursor < 0 ? [] : store.tree.order) {
      if (at === this.#cursor) break;
      if (at === found[before]) before++;
    }
    const isOnOne = this.#cursor >= 0 && found[before] === this.#cursor;
    const wanted = step < 0 ? before - 1 : before + Number(isOnOne && !stay);
    const next = (wanted + found.length) % found.length;
    const at = found[next] ?? 0;
    store.select(store.spans.key(at));
    this.#tools.tellFound(`${tokens(next + 1)} of ${tokens(found.length)}`);
  }

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const position = this.#rows.indexOf(this.#cursor);
    const at = this.#cursor;
    const isOpen = at >= 0 && (store.tree.size[at] ?? 1) > 1 && !this.#closed.has(at);
    const page = Math.max(1, Math.floor(this.#scroller.clientHeight / ROW) - 1);
    if (event.key === "ArrowDown" || event.key === "j") this.#go(position + 1);
    else if (event.key === "ArrowUp" || event.key === "k") this.#go(Math.max(0, position - 1));
    else if (event.key === "PageDown") this.#go(position + page);
    else if (event.key === "PageUp") this.#go(position - page);
    else if (event.key === "Home") this.#go(0);
    else if (event.key === "End") this.#go(this.#rows.length - 1);
    else if (event.key === "ArrowRight" && at >= 0) {
      if (isOpen) this.#go(position + 1);
      else this.#toggle(at);
    } else if (event.key === "ArrowLeft" && at >= 0) {
      const up = store.tree.parent[at] ?? -1;
      if (isOpen) this.#toggle(at);
      else if (up >= 0) store.select(store.spans.key(up));
    } else if (event.key === "*") this.#openAll();
    else if (event.key === "Enter") document.querySelector("span-inspector")?.scrollIntoView({ block: "nearest" });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  #onPageKey = (/** @type {KeyboardEvent} */ event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "f") {
      event.preventDefault();
      this.#tools.focus();
    } else if (!isTyping(event) && !event.ctrlKey && !event.metaKey && !event.altKey) {
      if (event.key === "e") this.#stepError(1);
      else if (event.key === "E") this.#stepError(-1);
      else if ((event.key === "j" || event.key === "k") && event.target !== this.#scroller) this.#onKey(event);
    }
  };

  #onClick = (/** @type {MouseEvent} */ event) => {
    const target = event.target instanceof Element ? event.target : null;
    const row = target?.closest(".span-row");
    if (!(row instanceof HTMLElement)) return;
    const at = Number(row.dataset.at);
    if (target?.closest(".twisty") || store.spans.columns.kind[at] === "trace") this.#toggle(at);
    else store.select(store.spans.key(at));
  };
}
customElements.define("span-tree", SpanTree);
