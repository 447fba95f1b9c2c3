// @ts-check
// Toolbar and column headers above the span tree. Calls back into the tree and keeps no other state than the filters.
import { h, setText } from "../dom.js";
import { pluralize } from "../format.js";

const FILTERS = [
  ["", "All kinds"],
  ["compact", "Compaction"],
  ["check", "Checks"],
  ["error", "Errors"],
  ["warning", "Warnings"],
  ["generation", "Generations"],
  ["tool", "Tools"],
  ["turn", "Turns"],
  ["running", "Running"],
];

/**
 * @typedef {{ onFilter: () => void, onLayout: (layout: "tree" | "flame") => void, onStepMatch: (step: number, stay?: boolean) => void, onNextError: () => void,
 *   onExpandAll: () => void, onCollapseAll: () => void, onLeave: () => void }} Callbacks
 */

export class TreeToolbar {
  /** Search text as it was typed. */ searchText = "";
  /** Value of the selected filter, or an empty string. */ filter = "";
  /** True if only matches of the search are shown. */ onlyMatches = false;
  #field = h("input", { class: "field", type: "search", placeholder: "Search spans…", "aria-label": "Search spans", "data-find": true });
  #matchCount = h("span", { class: "faint small num", role: "status" });
  #onlyMatches = h("button", { class: "button", type: "button", "aria-pressed": "false", title: "Show only matches" }, "Filter");
  #filter = h("select", { class: "field", "aria-label": "Span kinds" }, ...FILTERS.map(([value, label]) => h("option", { value }, label)));
  #errors = h("button", { class: "button quiet", type: "button", hidden: true, title: "Next error (e)" });
  #axis = h("div", { class: "tree-axis", "aria-hidden": "true" }, h("span"), h("span"), h("span"));
  #columns = h(
    "div",
    { class: "tree-columns faint" },
    h("span", {}, "Turn"),
    h("span", { class: "num" }, "Tokens"),
    h("span", { class: "num" }, "Time"),
    this.#axis,
  );
  #flame = h("button", { class: "button", type: "button", "aria-pressed": "false", title: "Show one trace as a flame graph" }, "Flame");
  /** Buttons that do nothing in a flame graph. @type {HTMLElement[]} */ #treeOnly = [];
  #callbacks;
  element;

  /** @param {Callbacks} callbacks */
  constructor(callbacks) {
    this.#callbacks = callbacks;
    this.#flame.addEventListener("click", () => callbacks.onLayout(this.#flame.getAttribute("aria-pressed") === "true" ? "tree" : "flame"));
    const quiet = { class: "button quiet", type: "button" };
    const expand = h("button", { ...quiet, title: "Expand all", onclick: callbacks.onExpandAll }, "Expand");
    const collapse = h("button", { ...quiet, title: "Collapse all", onclick: callbacks.onCollapseAll }, "Collapse");
    this.#treeOnly = [expand, collapse];
    this.#onlyMatches.addEventListener("click", () => {
      this.onlyMatches = !this.onlyMatches;
      this.#onlyMatches.setAttribute("aria-pressed", String(this.onlyMatches));
      callbacks.onFilter();
    });
    this.#filter.addEventListener("change", () => {
      this.filter = this.#filter.value;
      callbacks.onFilter();
    });
    this.#errors.addEventListener("click", callbacks.onNextError);
    this.#field.addEventListener("input", () => {
      this.searchText = this.#field.value.trim();
      callbacks.onFilter();
      if (this.searchTerm) callbacks.onStepMatch(1, true);
    });
    this.#field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") callbacks.onStepMatch(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") {
        this.#field.value = this.searchText = "";
        callbacks.onFilter();
        callbacks.onLeave();
      } else return;
      event.preventDefault();
    });
    const end = h("div", { class: "end" }, this.#errors, expand, collapse);
    const toolbar = h("div", { class: "panel-head no-print" }, this.#field, this.#matchCount, this.#onlyMatches, this.#filter, this.#flame, end);
    this.element = h("div", { class: "tree-head" }, toolbar, this.#columns);
  }

  focus() {
    this.#field.focus();
    this.#field.select();
  }

  /** Search term in lower case. */
  get searchTerm() {
    return this.searchText.toLowerCase();
  }

  get hasFilter() {
    return Boolean(this.filter || (this.onlyMatches && this.searchText));
  }

  /** Show all spans again. Keeps the search term. */
  clearFilter() {
    this.filter = this.#filter.value = "";
    this.onlyMatches = false;
    this.#onlyMatches.setAttribute("aria-pressed", "false");
    this.#callbacks.onFilter();
  }

  /** Clear search and filter. */
  clear() {
    this.#field.value = this.searchText = "";
    this.clearFilter();
  }

  /** Take search, filter and layout from the address. Returns true if something changed. @param {import("./store.js").View} view */
  restore({ kind, find, only, layout }) {
    const isFlame = String(layout === "flame");
    const hasChanged =
      kind !== this.filter || find !== this.searchText || only !== this.onlyMatches || this.#flame.getAttribute("aria-pressed") !== isFlame;
    this.filter = this.#filter.value = kind;
    // An unknown kind is not an option. The filter then applies without being selected.
    if (find !== this.searchText) this.#field.value = this.searchText = find;
    this.onlyMatches = only;
    this.#onlyMatches.setAttribute("aria-pressed", String(only));
    this.#flame.setAttribute("aria-pressed", isFlame);
    for (const button of this.#treeOnly) button.hidden = layout === "flame";
    return hasChanged;
  }

  /** @param {boolean} isHidden */
  setColumnsHidden(isHidden) {
    this.#columns.hidden = isHidden;
  }

  /** @param {string} text such as "3 found" or "1 of 3" */
  setMatchCount(text) {
    setText(this.#matchCount, text);
    this.#matchCount.hidden = !text;
    this.#onlyMatches.hidden = !text && !this.onlyMatches;
  }

  /** @param {number} count */
  setErrorCount(count) {
    this.#errors.hidden = !count;
    setText(this.#errors, pluralize(count, "error"));
  }

  /** Align the column headers with rows that are narrower by a scrollbar. @param {number} width */
  setScrollbarWidth(width) {
    this.#columns.style.marginInlineEnd = `${width}px`;
  }

  /** @param {string[]} labels at the start, the middle and the end of the time axis */
  setAxisLabels(labels) {
    [...this.#axis.children].forEach((mark, i) => setText(mark, labels[i] ?? ""));
  }
}
