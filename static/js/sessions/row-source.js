// @ts-check
// Computes what each row of the span tree shows, from the store.
import { titleOf } from "../kinds.js";
import { store } from "./store.js";
import { isMarked, resultOf } from "./timeline/layout.js";
import { formatCalls, headroomOf, summarizeTurn } from "./turn-summary.js";

/** @typedef {import("./store.js").Check} Check */
/** @typedef {import("./turn-summary.js").TurnSummary} TurnSummary */
/** @typedef {Omit<import("./span-row.js").RowData, "position" | "count" | "isExpanded" | "isSelected" | "isMatch" | "now">} RowContent */

// Spans that never ended don't stretch the time axis once the session has been silent for this long.
const SILENCE_MS = 30 * 60_000;

export class RowContents {
  /** Compactions by the position of their span. @type {Map<number, { number: number, check: Check }>} */ #compactions = new Map();
  /** The check of each turn. @type {Map<number, Check>} */ #checks = new Map();
  /** @type {Map<number, TurnSummary>} */ #turns = new Map();

  /** Forget what was computed from older spans and checks. */
  refresh() {
    this.#turns.clear();
    this.#checks.clear();
    this.#compactions.clear();
    let number = 0;
    for (const check of store.checks) {
      const at = store.spans.findKey(check.span);
      if (check.is_compaction) this.#compactions.set(at, { number: ++number, check });
      const turn = turnOf(at);
      // A turn that compacted shows its compaction, also if later checks of the turn did not.
      if (turn >= 0 && !(isMarked(this.#checks.get(turn)) && !isMarked(check))) this.#checks.set(turn, check);
    }
  }

  /** @param {number} at */
  isCompaction(at) {
    return this.#compactions.has(at);
  }

  /** Return the title of a row. A check that compacted is named after its compaction. @param {number} at */
  titleOf(at) {
    const { kind, name } = store.spans.columns;
    if (store.tree.turn[at]) return this.#turnTitle(at);
    const compaction = this.#compactions.get(at);
    return compaction ? `Compaction ${compaction.number}` : titleOf(kind[at] ?? "", name[at] ?? "");
  }

  /** @param {number} at */
  #turnTitle(at) {
    const { kind, name } = store.spans.columns;
    const own = kind[at] === "turn" ? (name[at] ?? "") : "";
    if (/^turn\b.*\d/i.test(own)) return own;
    return `Turn ${this.#checks.get(at)?.turn ?? store.tree.turn[at]}`;
  }

  /** Text that a search looks at. @param {number} at */
  searchText(at) {
    const { kind, name } = store.spans.columns;
    return `${this.titleOf(at)}\n${kind[at]}\n${name[at]}\n${store.lines.get(store.spans.key(at)) ?? ""}`.toLowerCase();
  }

  /** @param {number} at */
  summaryOf(at) {
    let summary = this.#turns.get(at);
    if (!summary) this.#turns.set(at, (summary = summarizeTurn(store.spans, store.tree, at, store.recovered)));
    return summary;
  }

  /** Height and color of a turn in the minimap. @param {number} at */
  mapRowOf(at) {
    const check = this.#checks.get(at);
    const tone = this.summaryOf(at).errors ? "error" : check?.is_compaction ? "compaction" : "";
    return { tokens: check ? check.before : (store.spans.columns.tokens[at] ?? null), tone };
  }

  /** Spans whose lines the drawn rows show. @param {Iterable<number>} drawn @returns {number[]} */
  spansWithLines(drawn) {
    const spans = [];
    for (const at of drawn) {
      if (store.tree.turn[at]) spans.push(...this.summaryOf(at).calls.slice(0, 1));
      else spans.push(at);
    }
    return spans;
  }

  /** @param {number} at @param {number} now @returns {RowContent} */
  contentOf(at, now) {
    const { kind, start, end, tokens: used } = store.spans.columns;
    const { depth, size, turn } = store.tree;
    const compaction = this.#compactions.get(at)?.check;
    const [from, to] = this.timeRangeOf(at, now);
    const base = {
      at,
      kind: kind[at] ?? "",
      title: this.titleOf(at),
      status: store.statusOf(at),
      level: depth[at] ?? 0,
      descendants: (size[at] ?? 1) - 1,
      from,
      to,
      window: store.windowTokens,
      isTurn: (turn[at] ?? 0) > 0,
    };
    if (base.isTurn) return { ...base, result: "", ...this.#turnContent(at) };
    const detail = store.lines.get(store.spans.key(at)) ?? "";
    const result = compaction ? resultOf(compaction) : "";
    return { ...base, result, start: start[at] ?? null, end: end[at] ?? null, used: used[at] ?? null, model: "", detail, errors: 0, chip: null };
  }

  /** @param {number} at */
  #turnContent(at) {
    const { kind, name, tokens: used } = store.spans.columns;
    const { model, calls, errors, from, to } = this.summaryOf(at);
    const check = this.#checks.get(at);
    const names = calls.map((call) => name[call] ?? "");
    const lines = calls.map((call) => store.lines.get(store.spans.key(call)) ?? "");
    const own = kind[at] === "turn" && !/^turn\b/i.test(name[at] ?? "") ? (name[at] ?? "") : "";
    return {
      start: from,
      end: to,
      used: check ? (check.after ?? check.before) : (used[at] ?? null),
      model: [own, model].filter(Boolean).join(" · "),
      detail: formatCalls(names, lines),
      errors,
      chip: headroomOf(check),
    };
  }

  /**
   * Time range of a row's bar: that of the chart's zoom, else of the enclosing turn, else of the request, else of the session.
   * @param {number} at
   * @param {number} now
   * @returns {[number, number]}
   */
  timeRangeOf(at, now) {
    if (store.range) return store.range;
    const { parent, turn } = store.tree;
    let top = -1;
    for (let up = parent[at] ?? -1, depth = 0; up >= 0 && depth < 1000; up = parent[up] ?? -1, depth++) {
      top = up;
      if (turn[up]) break;
    }
    if (top < 0) return this.sessionRange(now);
    const summary = turn[top] ? this.summaryOf(top) : null;
    const { start, end } = store.spans.columns;
    const from = summary ? summary.from : start[top];
    const to = summary ? summary.to : end[top];
    if (from == null) return this.sessionRange(now);
    return [from, Math.max(from + 1, to ?? this.sessionRange(now)[1])];
  }

  /** The whole session, up to now while it runs. @param {number} now @returns {[number, number]} */
  sessionRange(now) {
    const { from, to, running } = store.tree;
    return [from, Math.max(from, to, running && now - to < SILENCE_MS ? now : to)];
  }
}

/** Position of the turn that contains a span, or -1. @param {number} at */
export function turnOf(at) {
  for (let up = at, depth = 0; up >= 0 && depth < 1000; up = store.tree.parent[up] ?? -1, depth++) if (store.tree.turn[up]) return up;
  return -1;
}
