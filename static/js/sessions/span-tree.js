// @ts-check
// <span-tree>: the spans of the session as a tree, with search, filters and keyboard navigation. Never fetches.
import { isTyping } from "../dom.js";
import { duration, tokens } from "../format.js";
import { titleOf } from "../kinds.js";
import { RowWindow } from "./row-window.js";
import { store } from "./store.js";
import { resultOf } from "./timeline/layout.js";
import { TreeToolbar } from "./tree-toolbar.js";
import { visibleRows } from "./tree.js";

const TICK_MS = 500;
// Spans that never ended don't stretch the time axis once the session has been silent for this long.
const SILENCE_MS = 30 * 60_000;
// Filters that aren't the name of a kind.
/** @type {Record<string, (at: number) => boolean>} */
const SPECIAL_FILTERS = {
  compact: (at) => Boolean(store.spans.columns.kind[at]?.startsWith("compact.")),
  error: (at) => store.spans.columns.status[at] === "error",
  running: (at) => store.spans.columns.end[at] == null && store.spans.columns.start[at] != null,
};

class SpanTree extends HTMLElement {
  /** @type {(() => void)[]} */ #unsubscribe = [];
  /** The spans that the positions in `#collapsed` refer to. @type {unknown} */ #spans = null;
  /** @type {Set<number>} */ #collapsed = new Set();
  #cursor = -1;
  /** Compactions by the position of their span. @type {Map<number, { number: number, check: import("./store.js").Check }>} */
  #compactions = new Map();
  #ticker = 0;
  /** @type {ResizeObserver | null} */ #observer = null;
  #window = new RowWindow((at, position, now) => this.#rowData(at, position, now));
  #toolbar = new TreeToolbar({
    onFilter: () => this.#update(),
    onStepMatch: (step, stay = false) => this.#selectNext(this.#findMatches(), step, stay),
    onNextError: () => this.#stepError(1),
    onExpandAll: () => this.#expandAll(),
    onCollapseAll: () => this.#collapseAll(),
    onLeave: () => this.#window.scroller.focus(),
  });

  connectedCallback() {
    const { scroller } = this.#window;
    scroller.addEventListener("keydown", this.#onKey);
    scroller.addEventListener("click", this.#onClick);
    document.addEventListener("keydown", this.#onPageKey);
    this.#observer = new ResizeObserver(() => {
      this.#toolbar.setScrollbarWidth(scroller.offsetWidth - scroller.clientWidth);
      this.#window.drawSoon();
    });
    this.#observer.observe(scroller);
    this.#unsubscribe = [
      store.subscribe("spans", () => this.#update()),
      store.subscribe("selected", () => this.#reveal()),
      store.subscribe("range", () => this.#followRange()),
      store.subscribe("checks", () => {
        this.#indexCompactions();
        this.#window.invalidate();
      }),
    ];
    this.#ticker = window.setInterval(() => this.#growRunning(), TICK_MS);
  }

  disconnectedCallback() {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#observer?.disconnect();
    this.#window.stop();
    clearInterval(this.#ticker);
    document.removeEventListener("keydown", this.#onPageKey);
  }

  #growRunning() {
    if (!store.tree.running) return;
    this.#drawAxis();
    this.#window.invalidate();
  }

  /** Compute the rows and draw them. */
  #update() {
    if (!store.isLoaded) return;
    if (!this.#window.scroller.isConnected) this.replaceChildren(this.#toolbar.element, this.#window.scroller);
    if (this.#spans !== store.spans) {
      this.#spans = store.spans;
      this.#collapsed.clear();
    }
    this.#indexCompactions();
    this.#cursor = store.selected ? store.spans.findKey(store.selected) : -1;
    this.#window.setRows(visibleRows(store.tree, this.#collapsed, this.#filter()));
    this.#toolbar.setErrorCount(store.tree.errors);
    this.#toolbar.setMatchCount(this.#toolbar.searchTerm ? `${tokens(this.#findMatches().length)} found` : "");
    this.#drawAxis();
  }

  /** Return the predicate of the toolbar's filters, or null without one. @returns {((at: number) => boolean) | null} */
  #filter() {
    const { filter, onlyMatches, searchTerm } = this.#toolbar;
    const isSearching = onlyMatches && searchTerm !== "";
    if (!filter && !isSearching) return null;
    const hasKind = SPECIAL_FILTERS[filter] ?? ((/** @type {number} */ at) => !filter || store.spans.columns.kind[at] === filter);
    return (at) => hasKind(at) && (!isSearching || this.#isMatch(at));
  }

  /** Return true if the span matches the search term. @param {number} at */
  #isMatch(at) {
    const { kind, id } = store.spans.columns;
    const term = this.#toolbar.searchTerm;
    return Boolean(this.#titleOf(at).toLowerCase().includes(term) || kind[at]?.includes(term) || id[at]?.toLowerCase() === term);
  }

  /** Find all matches in tree order, including those in collapsed branches. */
  #findMatches() {
    return this.#toolbar.searchTerm ? store.tree.order.filter((at) => this.#isMatch(at)) : new Int32Array(0);
  }

  /** Return the title of a row. A check that compacted is named after its compaction. @param {number} at */
  #titleOf(at) {
    const { kind, name } = store.spans.columns;
    const compaction = this.#compactions.get(at);
    return compaction ? `Compaction ${compaction.number}` : titleOf(kind[at] ?? "", name[at] ?? "");
  }

  #indexCompactions() {
    this.#compactions = new Map(store.compactions.map((check, i) => [store.spans.findKey(check.span), { number: i + 1, check }]));
  }

  /** @param {number} at @param {number} position @param {number} now @returns {import("./span-row.js").RowData} */
  #rowData(at, position, now) {
    const { kind, status, start, end, tokens: used } = store.spans.columns;
    const { depth, size } = store.tree;
    const [from, to] = this.#timeRange;
    const compaction = this.#compactions.get(at)?.check;
    return {
      at,
      position,
      count: this.#window.rows.length,
      kind: kind[at] ?? "",
      title: this.#titleOf(at),
      result: compaction ? resultOf(compaction) : "",
      status: status[at] ?? "",
      start: start[at] ?? null,
      end: end[at] ?? null,
      used: used[at] ?? null,
      level: depth[at] ?? 0,
      descendants: (size[at] ?? 1) - 1,
      isExpanded: !this.#collapsed.has(at),
      isSelected: at === this.#cursor,
      isMatch: Boolean(this.#toolbar.searchTerm) && this.#isMatch(at),
      from,
      to,
      now,
      window: store.windowTokens,
    };
  }

  #drawAxis() {
    const [from, to] = this.#timeRange;
    const offset = from - store.tree.from;
    const times = [0, 0.5, 1].map((share) => offset + (to - from) * share);
    this.#toolbar.setAxisLabels(times.map((ms) => (ms < 1 ? "0" : duration(ms))));
  }

  /**
   * Time range of the bars: that of the timeline, or the whole session, up to now while it runs.
   * @returns {[number, number]}
   */
  get #timeRange() {
    if (store.range) return store.range;
    const { from, to, running } = store.tree;
    const now = Date.now();
    return [from, Math.max(from, to, running && now - to < SILENCE_MS ? now : to)];
  }

  /** Follow the timeline's zoom: redraw the bars, and scroll to the range unless one of its spans is visible. */
  #followRange() {
    this.#drawAxis();
    this.#window.invalidate();
    if (!store.range) return;
    const [from, to] = store.range;
    const { start } = store.spans.columns;
    const isInRange = (/** @type {number} */ at) => (start[at] ?? -1) >= from && (start[at] ?? -1) < to;
    const first = this.#window.visible.some(isInRange) ? -1 : this.#window.rows.findIndex(isInRange);
    if (first >= 0) this.#window.scrollToTop(first - 1);
  }

  /** Expand the ancestors of the selected span and scroll to it. */
  #reveal() {
    const at = store.spans.findKey(store.selected);
    this.#cursor = at;
    const { scroller } = this.#window;
    if (at >= 0) {
      this.#expandAncestors(at);
      if (this.#toolbar.hasFilter && this.#window.rows.indexOf(at) < 0) {
        this.#toolbar.clearFilter();
        this.#update();
      }
      this.#window.scrollIntoView(this.#window.rows.indexOf(at));
      scroller.setAttribute("aria-activedescendant", `span-${at}`);
    } else scroller.removeAttribute("aria-activedescendant");
    this.#window.redraw();
  }

  /** @param {number} at */
  #expandAncestors(at) {
    let hasChanged = false;
    for (let up = store.tree.parent[at] ?? -1; up >= 0; up = store.tree.parent[up] ?? -1) {
      hasChanged = this.#collapsed.delete(up) || hasChanged;
    }
    if (hasChanged) this.#update();
  }

  /** @param {number} position */
  #selectRow(position) {
    const { rows } = this.#window;
    const at = rows[Math.max(0, Math.min(rows.length - 1, position))];
    if (at !== undefined) store.select(store.spans.key(at));
  }

  /** @param {number} at */
  #toggle(at) {
    if ((store.tree.size[at] ?? 1) < 2) return;
    if (!this.#collapsed.delete(at)) this.#collapsed.add(at);
    this.#update();
  }

  #expandAll() {
    this.#collapsed.clear();
    this.#update();
  }

  #collapseAll() {
    const { order, size } = store.tree;
    this.#collapsed = new Set(order.filter((at) => (size[at] ?? 1) > 1));
    this.#update();
    this.#window.scrollToTop(0);
  }

  /** @param {number} step */
  #stepError(step) {
    const { status } = store.spans.columns;
    this.#selectNext(store.tree.order.filter((at) => status[at] === "error"), step, false);
  }

  /**
   * Select the next or previous of some spans, relative to the cursor.
   * @param {Int32Array} candidates in tree order
   * @param {number} step
   * @param {boolean} stay keep the cursor if it is on a candidate
   */
  #selectNext(candidates, step, stay) {
    if (!candidates.length) return;
    // Both lists are in tree order, so one pass counts the candidates before the cursor.
    let before = 0;
    for (const at of this.#cursor < 0 ? [] : store.tree.order) {
      if (at === this.#cursor) break;
      if (at === candidates[before]) before++;
    }
    const isOnCandidate = this.#cursor >= 0 && candidates[before] === this.#cursor;
    const index = step < 0 ? before - 1 : before + Number(isOnCandidate && !stay);
    const next = (index + candidates.length) % candidates.length;
    store.select(store.spans.key(candidates[next] ?? 0));
    this.#toolbar.setMatchCount(`${tokens(next + 1)} of ${tokens(candidates.length)}`);
  }

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { rows, pageSize } = this.#window;
    const position = rows.indexOf(this.#cursor);
    if (event.key === "ArrowDown" || event.key === "j") this.#selectRow(position + 1);
    else if (event.key === "ArrowUp" || event.key === "k") this.#selectRow(Math.max(0, position - 1));
    else if (event.key === "PageDown") this.#selectRow(position + pageSize);
    else if (event.key === "PageUp") this.#selectRow(position - pageSize);
    else if (event.key === "Home") this.#selectRow(0);
    else if (event.key === "End") this.#selectRow(rows.length - 1);
    else if (event.key === "ArrowRight" && this.#cursor >= 0) this.#expandOrEnter(position);
    else if (event.key === "ArrowLeft" && this.#cursor >= 0) this.#collapseOrLeave();
    else if (event.key === "*") this.#expandAll();
    else if (event.key === "Enter") document.querySelector("span-inspector")?.scrollIntoView({ block: "nearest" });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  get #isCursorExpanded() {
    return (store.tree.size[this.#cursor] ?? 1) > 1 && !this.#collapsed.has(this.#cursor);
  }

  /** @param {number} position */
  #expandOrEnter(position) {
    if (this.#isCursorExpanded) this.#selectRow(position + 1);
    else this.#toggle(this.#cursor);
  }

  #collapseOrLeave() {
    const parent = store.tree.parent[this.#cursor] ?? -1;
    if (this.#isCursorExpanded) this.#toggle(this.#cursor);
    else if (parent >= 0) store.select(store.spans.key(parent));
  }

  #onPageKey = (/** @type {KeyboardEvent} */ event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "f") {
      // The browser's own search would miss the rows that aren't in the document.
      event.preventDefault();
      this.#toolbar.focus();
    } else if (!isTyping(event) && !event.ctrlKey && !event.metaKey && !event.altKey) {
      if (event.key === "e") this.#stepError(1);
      else if (event.key === "E") this.#stepError(-1);
      else if ((event.key === "j" || event.key === "k") && event.target !== this.#window.scroller) this.#onKey(event);
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
