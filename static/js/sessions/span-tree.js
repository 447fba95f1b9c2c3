// @ts-check
// <span-tree>: the turns and spans of the session as a tree, with search, filters and keyboard navigation.
import { h, isTyping } from "../dom.js";
import { duration, pluralize, tokens } from "../format.js";
import { WindowedList } from "../windowed-list.js";
import { FlameView } from "./flame-view.js";
import { LineLoader } from "./line-loader.js";
import { Minimap } from "./minimap.js";
import { RowContents } from "./row-source.js";
import { filterOf } from "./span-filters.js";
import { SpanRow } from "./span-row.js";
import { store } from "./store.js";
import { TreeToolbar } from "./tree-toolbar.js";
import { visibleRows } from "./tree.js";

const TICK_MS = 500;

class SpanTree extends HTMLElement {
  /** @type {(() => void)[]} */ #unsubscribe = [];
  /** The spans that the positions in `#toggled` refer to. @type {unknown} */ #spans = null;
  /** Rows that are collapsed or expanded against their default. Turns are collapsed by default. @type {Set<number>} */ #toggled = new Set();
  /** Rows that are collapsed while a filter is on, which shows all matches by default. @type {Set<number>} */ #collapsedMatches = new Set();
  #cursor = -1;
  #ticker = 0;
  /** @type {ResizeObserver | null} */ #observer = null;
  #contents = new RowContents();
  #lines = new LineLoader(this.dataset.session ?? "");
  /** Spans to show, in order. @type {Int32Array} */ #rows = new Int32Array(0);
  #body = h("div", { role: "presentation" });
  /** @type {WindowedList<number>} */ #list = new WindowedList({
    scroller: h("div", { class: "tree-scroll", role: "tree", tabindex: "0", "aria-label": "Spans" }, this.#body),
    body: this.#body,
    height: "--row",
    create: () => new SpanRow((at, position) => this.#rowData(at, position)),
    keyOf: (at) => at,
    kindOf: (at) => (store.tree.turn[at] ? "turn" : (store.spans.columns.kind[at] ?? "")),
  });
  #minimap = new Minimap((share) => this.#list.scrollToTop(Math.floor(share * this.#rows.length - this.#list.pageSize / 2)));
  #flame = new FlameView({ titleOf: (at) => this.#contents.titleOf(at), onSelect: (at) => store.select(store.spans.key(at)) });
  #skew = h("p", { class: "tree-note", role: "status", "data-testid": "clock-skew", hidden: true });
  #empty = h("div", { class: "empty", hidden: true });
  #toolbar = new TreeToolbar({
    onFilter: () => {
      const { filter, searchText, onlyMatches } = this.#toolbar;
      this.#collapsedMatches.clear();
      store.setView({ kind: filter, find: searchText, only: onlyMatches });
      this.#update();
    },
    onLayout: (layout) => store.setView({ layout }),
    onStepMatch: (step, stay = false) => this.#selectNext(this.#findMatches(), step, stay),
    onNextError: () => this.#stepError(1),
    onExpandAll: () => this.#setAll(false),
    onCollapseAll: () => this.#setAll(true),
    onLeave: () => this.#list.scroller.focus(),
  });

  connectedCallback() {
    const { scroller } = this.#list;
    scroller.addEventListener("keydown", this.#onKey);
    scroller.addEventListener("click", this.#onClick);
    document.addEventListener("keydown", this.#onPageKey);
    this.#observer = new ResizeObserver(() => this.#toolbar.setScrollbarWidth(scroller.offsetWidth - scroller.clientWidth));
    this.#observer.observe(scroller);
    this.#list.start();
    scroller.addEventListener("scroll", () => this.#drawMinimapView(), { passive: true });
    this.#list.onDraw = (drawn) => this.#lines.want(this.#contents.spansWithLines(drawn));
    this.#toolbar.restore(store.view);
    this.#unsubscribe = [
      store.subscribe("spans", () => this.#update()),
      store.subscribe("selected", () => this.#reveal()),
      store.subscribe("range", () => this.#followRange()),
      store.subscribe("checks", () => this.#update()),
      store.subscribe("lines", () => this.#list.invalidate()),
      store.subscribe("view", () => {
        if (this.#toolbar.restore(store.view)) this.#update();
      }),
    ];
    this.#ticker = window.setInterval(() => this.#growRunning(), TICK_MS);
  }

  disconnectedCallback() {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#observer?.disconnect();
    this.#list.stop();
    this.#lines.stop();
    clearInterval(this.#ticker);
    document.removeEventListener("keydown", this.#onPageKey);
  }

  #growRunning() {
    if (!store.tree.running) return;
    this.#drawAxis();
    this.#list.invalidate();
  }

  /** Compute the rows and draw them. */
  #update() {
    if (!store.isLoaded) return;
    const { scroller } = this.#list;
    if (!scroller.isConnected) {
      this.replaceChildren(this.#toolbar.element, this.#minimap.element, this.#skew, scroller, this.#empty, this.#flame.element);
    }
    const isLoadedAnew = this.#spans !== store.spans;
    if (isLoadedAnew) {
      this.#spans = store.spans;
      this.#toggled.clear();
      this.#collapsedMatches.clear();
    }
    this.#contents.refresh();
    this.#cursor = store.selected ? store.spans.findKey(store.selected) : -1;
    const filter = this.#filter();
    const isCollapsed = (/** @type {number} */ at) => this.#isCollapsed(at, filter !== null);
    this.#rows = visibleRows(store.tree, { has: isCollapsed }, filter);
    this.#list.setItems(this.#rows);
    this.#toolbar.setErrorCount(store.errorCount);
    this.#toolbar.setMatchCount(this.#toolbar.searchTerm ? `${tokens(this.#findMatches().length)} found` : "");
    this.#showLayout();
    this.#drawAxis();
    this.#drawSkew();
    this.#drawMinimap();
    // A marker can be clicked before its span has arrived.
    if (isLoadedAnew && store.selected) this.#reveal();
  }

  /** Show the tree, the flame view, or why there is nothing to show. */
  #showLayout() {
    const isFlame = store.view.layout === "flame";
    const isEmpty = !isFlame && !this.#rows.length;
    this.#list.scroller.hidden = isFlame || isEmpty;
    this.#minimap.element.hidden = isFlame || isEmpty;
    this.#toolbar.setColumnsHidden(isFlame || isEmpty);
    this.#flame.element.hidden = !isFlame;
    this.#empty.hidden = !isEmpty;
    if (isFlame) this.#flame.show(this.#cursor);
    if (isEmpty) this.#empty.replaceChildren(...this.#describeEmpty());
  }

  #describeEmpty() {
    if (!store.spans.length) return [h("h2", {}, "No spans yet"), h("p", {}, "Spans appear here as the agent sends them.")];
    const clear = h("button", { class: "button", type: "button", onclick: () => this.#toolbar.clear() }, "Clear search and filter");
    const { searchText } = this.#toolbar;
    return [h("h2", {}, searchText ? `No spans match “${searchText}”` : "No spans of this kind"), h("p", {}, clear)];
  }

  /** @param {number} at @param {boolean} hasFilter */
  #isCollapsed(at, hasFilter) {
    if (hasFilter) return this.#collapsedMatches.has(at);
    return this.#toggled.has(at) !== (store.tree.turn[at] ?? 0) > 0;
  }

  /** Return the predicate of the toolbar's filters, or null without one. @returns {((at: number) => boolean) | null} */
  #filter() {
    const { filter, onlyMatches, searchTerm } = this.#toolbar;
    const hasKind = filterOf(filter, (at) => this.#contents.isCompaction(at));
    if (!onlyMatches || !searchTerm) return hasKind;
    return (at) => (!hasKind || hasKind(at)) && this.#isMatch(at);
  }

  /** Return true if the span matches the search term. @param {number} at */
  #isMatch(at) {
    const term = this.#toolbar.searchTerm;
    return this.#contents.searchText(at).includes(term) || store.spans.columns.id[at]?.toLowerCase() === term;
  }

  /** Find all matches in tree order, including those in collapsed branches. */
  #findMatches() {
    return this.#toolbar.searchTerm ? store.tree.order.filter((at) => this.#isMatch(at)) : new Int32Array(0);
  }

  /** @param {number} at @param {number} position @returns {import("./span-row.js").RowData} */
  #rowData(at, position) {
    const now = Date.now();
    return {
      ...this.#contents.contentOf(at, now),
      position,
      count: this.#rows.length,
      isExpanded: !this.#isCollapsed(at, this.#toolbar.hasFilter),
      isSelected: at === this.#cursor,
      isMatch: Boolean(this.#toolbar.searchTerm) && this.#isMatch(at),
      now,
    };
  }

  /** Label the axis of the selected row. Rows of a turn are scaled to their turn. */
  #drawAxis() {
    const now = Date.now();
    const [from, to] = this.#cursor >= 0 ? this.#contents.timeRangeOf(this.#cursor, now) : (store.range ?? this.#contents.sessionRange(now));
    const offset = store.range ? from - store.tree.from : 0;
    const times = [0, 0.5, 1].map((share) => offset + (to - from) * share);
    // An instant has no scale.
    this.#toolbar.setAxisLabels(times.map((ms, i) => (ms >= 1 ? duration(ms) : i ? "" : "0")));
  }

  #drawSkew() {
    const { far, early, earlyMs } = store.tree.skew;
    const texts = [];
    if (far) texts.push(`${pluralize(far, "span")} ${far === 1 ? "is" : "are"} more than 30 days away from the others and outside the time axis.`);
    if (early) texts.push(`${pluralize(early, "span")} ${early === 1 ? "starts" : "start"} up to ${duration(earlyMs)} before ${early === 1 ? "its" : "their"} parent.`);
    this.#skew.hidden = !texts.length;
    if (texts.length) this.#skew.textContent = `Clock skew: ${texts.join(" ")} The clocks of the machines differ.`;
  }

  #drawMinimap() {
    const { kind, tokens: used } = store.spans.columns;
    const rowOf = (/** @type {number} */ at) => {
      if (store.tree.turn[at]) return this.#contents.mapRowOf(at);
      const tone = store.statusOf(at) === "error" ? "error" : this.#contents.isCompaction(at) ? "compaction" : "";
      return { tokens: kind[at] === "trace" ? null : (used[at] ?? null), tone };
    };
    this.#minimap.show(this.#rows, rowOf, store.windowTokens);
    this.#drawMinimapView();
  }

  #drawMinimapView() {
    const { scrollTop, clientHeight, scrollHeight } = this.#list.scroller;
    this.#minimap.setView(scrollTop / Math.max(1, scrollHeight), Math.min(1, (scrollTop + clientHeight) / Math.max(1, scrollHeight)));
  }

  /** Follow the timeline's zoom: redraw the bars, and scroll to the range unless one of its spans is visible. */
  #followRange() {
    this.#drawAxis();
    this.#list.invalidate();
    if (!store.range) return;
    const [from, to] = store.range;
    const { start } = store.spans.columns;
    const isInRange = (/** @type {number} */ at) => (start[at] ?? -1) >= from && (start[at] ?? -1) < to;
    const hasVisible = this.#rows.subarray(...this.#list.visible).some(isInRange);
    const first = hasVisible ? -1 : this.#rows.findIndex(isInRange);
    if (first >= 0) this.#list.scrollToTop(first - 1);
  }

  /** Expand the ancestors of the selected span and scroll to it. */
  #reveal() {
    const at = store.spans.findKey(store.selected);
    this.#cursor = at;
    const { scroller } = this.#list;
    if (at >= 0) {
      // The page opens on a compaction and shows its steps.
      if (store.selectedBy === "page" && this.#isCollapsed(at, this.#toolbar.hasFilter)) this.#toggle(at);
      this.#expandAncestors(at);
      const isHidden = this.#toolbar.hasFilter && this.#rows.indexOf(at) < 0;
      if (isHidden && store.selectedBy === "reader") this.#toolbar.clearFilter();
      this.#list.scrollIntoView(this.#rows.indexOf(at));
      scroller.setAttribute("aria-activedescendant", `span-${at}`);
    } else scroller.removeAttribute("aria-activedescendant");
    this.#drawAxis();
    if (store.view.layout === "flame") this.#flame.show(at);
    this.#list.redraw();
  }

  /** @param {number} at */
  #expandAncestors(at) {
    const hasFilter = this.#toolbar.hasFilter;
    let hasChanged = false;
    for (let up = store.tree.parent[at] ?? -1; up >= 0; up = store.tree.parent[up] ?? -1) {
      if (!this.#isCollapsed(up, hasFilter)) continue;
      this.#flip(up);
      hasChanged = true;
    }
    if (hasChanged) this.#update();
  }

  /** @param {number} at */
  #flip(at) {
    const rows = this.#toolbar.hasFilter ? this.#collapsedMatches : this.#toggled;
    if (!rows.delete(at)) rows.add(at);
  }

  /** @param {number} position */
  #selectRow(position) {
    const rows = this.#rows;
    const at = rows[Math.max(0, Math.min(rows.length - 1, position))];
    if (at !== undefined) store.select(store.spans.key(at));
  }

  /** @param {number} at */
  #toggle(at) {
    if ((store.tree.size[at] ?? 1) < 2) return;
    this.#flip(at);
    this.#update();
  }

  /** Collapse or expand every row. @param {boolean} isCollapsed */
  #setAll(isCollapsed) {
    const { order, size, turn } = store.tree;
    const parents = order.filter((at) => (size[at] ?? 1) > 1);
    this.#toggled = new Set(parents.filter((at) => isCollapsed !== (turn[at] ?? 0) > 0));
    this.#collapsedMatches = new Set(isCollapsed ? parents : []);
    this.#update();
    if (isCollapsed) this.#list.scrollToTop(0);
  }

  /** @param {number} step */
  #stepError(step) {
    this.#selectNext(store.tree.order.filter((at) => store.statusOf(at) === "error"), step, false);
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
    const { pageSize } = this.#list;
    const rows = this.#rows;
    const position = rows.indexOf(this.#cursor);
    if (event.key === "ArrowDown" || event.key === "j") this.#selectRow(position + 1);
    else if (event.key === "ArrowUp" || event.key === "k") this.#selectRow(Math.max(0, position - 1));
    else if (event.key === "PageDown") this.#selectRow(position + pageSize);
    else if (event.key === "PageUp") this.#selectRow(position - pageSize);
    else if (event.key === "Home") this.#selectRow(0);
    else if (event.key === "End") this.#selectRow(rows.length - 1);
    else if (event.key === "ArrowRight" && this.#cursor >= 0) this.#expandOrEnter(position);
    else if (event.key === "ArrowLeft" && this.#cursor >= 0) this.#collapseOrLeave();
    else if (event.key === "*") this.#setAll(false);
    else if (event.key === "Enter") document.querySelector("span-inspector")?.scrollIntoView({ block: "nearest" });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  get #isCursorExpanded() {
    return (store.tree.size[this.#cursor] ?? 1) > 1 && !this.#isCollapsed(this.#cursor, this.#toolbar.hasFilter);
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
      if (event.key.toLowerCase() === "e") this.#stepError(event.shiftKey ? -1 : 1);
      else if ((event.key === "j" || event.key === "k") && event.target !== this.#list.scroller) this.#onKey(event);
    }
  };

  #onClick = (/** @type {MouseEvent} */ event) => {
    const target = event.target instanceof Element ? event.target : null;
    const row = target?.closest(".span-row");
    if (!(row instanceof HTMLElement)) return;
    const at = Number(row.dataset.at);
    if (target?.closest(".twisty") || store.spans.columns.kind[at] === "trace") this.#toggle(at);
    else this.#openRow(at);
  };

  /** Select a row. A turn also expands, and collapses with the next click. @param {number} at */
  #openRow(at) {
    const isTurn = (store.tree.turn[at] ?? 0) > 0;
    if (isTurn && (at === this.#cursor || this.#isCollapsed(at, this.#toolbar.hasFilter))) this.#toggle(at);
    store.select(store.spans.key(at));
  }
}
customElements.define("span-tree", SpanTree);
