// @ts-check
// Arrange spans as a tree. Pure and iterative: 100,000 spans that are a thousand levels deep take milliseconds.

import { outliersOf } from "./clock-skew.js";
import { groupTurns, numberTurns } from "./turns.js";

/** @typedef {import("./spans.js").Spans} Spans */

// Children that start this long before their parent have a different clock.
const MIN_SKEW_MS = 1000;
// Sessions rarely last longer. Beyond this, look for wrong clocks.
const MAX_RANGE_MS = 30 * 86_400_000;

/**
 * `order` has the position of every span once: parents before children, siblings by start. The other arrays are indexed by
 * span. `size` counts a span and its descendants. `place` is the index of a span in `order`. `turn` is the number of a turn,
 * and 0 for other spans. `skew` counts the spans whose clock disagrees with the others.
 * @typedef {{ order: Int32Array, place: Int32Array, depth: Int32Array, size: Int32Array, parent: Int32Array, turn: Int32Array,
 *   from: number, to: number, errors: number, running: number, skew: Skew }} Tree
 * @typedef {{ far: number, early: number, earlyMs: number }} Skew
 */

/**
 * @param {Spans} spans
 * @param {Int32Array} [previous] `byStart` of the last tree. Nearly sorted input sorts faster.
 * @returns {Tree & { byStart: Int32Array }}
 */
export function buildTree(spans, previous) {
  spans.addTraceRows();
  const { parent, startAt, first, last, errors, running } = resolveParents(spans);
  const outliers = last - first > MAX_RANGE_MS ? outliersOf(startAt.filter(Number.isFinite).sort()) : null;
  const isFar = outliers?.isOutlier ?? (() => false);
  extendTraces(spans, parent, startAt, isFar);
  const byStart = sortByStart(startAt, previous);
  const early = countEarly(spans, parent, isFar);
  const isTurn = groupTurns(spans, parent, byStart);
  const { order, depth } = walkTree(parent, byStart);
  const { from, to } = timeRange(spans, startAt, isFar);
  const skew = { far: outliers?.count ?? 0, ...early };
  const turn = numberTurns(order, isTurn);
  return { order, place: invert(order), depth, size: subtreeSizes(order, parent), parent, turn, from, to, errors, running, skew, byStart };
}

/** @param {Int32Array} order */
function invert(order) {
  const place = new Int32Array(order.length);
  for (let k = 0; k < order.length; k++) place[order[k] ?? 0] = k;
  return place;
}

/** First start and last end, without spans whose clock is wrong. @param {Spans} spans @param {Float64Array} startAt @param {(time: number) => boolean} isFar */
function timeRange(spans, startAt, isFar) {
  const { end } = spans.columns;
  let from = Infinity;
  let to = -Infinity;
  for (let i = 0; i < startAt.length; i++) {
    const start = startAt[i] ?? Infinity;
    if (start === Infinity || isFar(start)) continue;
    if (start < from) from = start;
    const last = Math.max(start, end[i] ?? start);
    if (last > to && last - start < MAX_RANGE_MS) to = last;
  }
  return from === Infinity ? { from: 0, to: 0 } : { from, to: Math.max(from, to) };
}

/** Count the spans that start before their parent. @param {Spans} spans @param {Int32Array} parent @param {(time: number) => boolean} isFar */
function countEarly(spans, parent, isFar) {
  const { start, kind } = spans.columns;
  let early = 0;
  let earlyMs = 0;
  for (let i = 0; i < parent.length; i++) {
    const up = parent[i] ?? -1;
    if (up < 0 || kind[up] === "trace") continue;
    const [own, outer] = [start[i] ?? null, start[up] ?? null];
    if (own === null || outer === null || outer - own < MIN_SKEW_MS || isFar(own) || isFar(outer)) continue;
    early++;
    earlyMs = Math.max(earlyMs, outer - own);
  }
  return { early, earlyMs };
}

/** Find the parent and the start of every span, and the totals. One pass over the columns. @param {Spans} spans */
function resolveParents(spans) {
  const { parent: parentIds, trace, start, end, status, id } = spans.columns;
  const count = spans.length;
  const parent = new Int32Array(count).fill(-1);
  const startAt = new Float64Array(count);
  let first = Infinity;
  let last = -Infinity;
  let errors = 0;
  let running = 0;
  /** @type {string | null | undefined} */ let lastId = null;
  let lastAt = -1;
  for (let i = 0; i < count; i++) {
    const startTime = start[i] ?? end[i] ?? null;
    const endTime = end[i] ?? null;
    startAt[i] = startTime ?? Infinity;
    if (startTime !== null) {
      if (startTime < first) first = startTime;
      if (startTime > last) last = startTime;
      if (endTime === null) running++;
    }
    if (status[i] === "error") errors++;
    const parentId = parentIds[i];
    let at = -1;
    // Siblings often follow each other. Reuse the parent that was found for the last span.
    if (parentId) at = parentId === lastId && trace[i] === trace[i - 1] ? lastAt : spans.find(trace[i] ?? "", parentId);
    lastId = parentId;
    lastAt = at;
    if (at < 0 && id[i]) at = spans.find(trace[i] ?? "\0", "");
    if (at !== i) parent[i] = at;
  }
  return { parent, startAt, first, last, errors, running };
}

/**
 * Extend every trace row to cover its spans.
 * @param {Spans} spans
 * @param {Int32Array} parent
 * @param {Float64Array} startAt
 * @param {(time: number) => boolean} isFar
 */
function extendTraces(spans, parent, startAt, isFar) {
  const { kind, id, start, end } = spans.columns;
  for (let i = 0; i < parent.length; i++) {
    const up = parent[i] ?? -1;
    if (up < 0 || kind[up] !== "trace" || id[up]) continue;
    const startTime = start[i] ?? null;
    if (startTime !== null && isFar(startTime)) continue;
    if (startTime !== null && startTime < (startAt[up] ?? Infinity)) {
      startAt[up] = startTime;
      start[up] = startTime;
    }
    const endTime = end[i] ?? startTime;
    if (endTime !== null && endTime > (end[up] ?? -Infinity)) end[up] = endTime;
  }
}

/** @param {Float64Array} startAt @param {Int32Array} [previous] */
function sortByStart(startAt, previous) {
  const count = startAt.length;
  const byStart = new Int32Array(count);
  const known = previous && previous.length <= count ? previous : new Int32Array(0);
  byStart.set(known);
  for (let i = known.length; i < count; i++) byStart[i] = i;
  const isSorted = byStart.every((at, i) => i === 0 || (startAt[byStart[i - 1] ?? 0] ?? 0) <= (startAt[at] ?? 0));
  if (!isSorted) byStart.sort((a, b) => (startAt[a] ?? 0) - (startAt[b] ?? 0) || a - b);
  return byStart;
}

/**
 * Link children as lists. Filled from the last start to the first, so that each list is in order.
 * @param {Int32Array} parent
 * @param {Int32Array} byStart
 */
function linkChildren(parent, byStart) {
  const firstChild = new Int32Array(parent.length).fill(-1);
  const nextSibling = new Int32Array(parent.length).fill(-1);
  let firstRoot = -1;
  for (let k = parent.length - 1; k >= 0; k--) {
    const i = byStart[k] ?? 0;
    const up = parent[i] ?? -1;
    if (up < 0) {
      nextSibling[i] = firstRoot;
      firstRoot = i;
    } else {
      nextSibling[i] = firstChild[up] ?? -1;
      firstChild[up] = i;
    }
  }
  return { firstChild, nextSibling, firstRoot };
}

/** Visit all spans depth first. Breaks cycles in `parent`. @param {Int32Array} parent @param {Int32Array} byStart */
function walkTree(parent, byStart) {
  const { firstChild, nextSibling, firstRoot } = linkChildren(parent, byStart);
  const count = parent.length;
  const order = new Int32Array(count);
  const depth = new Int32Array(count);
  const visited = new Uint8Array(count);
  let filled = 0;
  const walk = (/** @type {number} */ root) => {
    let i = root;
    for (;;) {
      visited[i] = 1;
      order[filled++] = i;
      const child = firstChild[i] ?? -1;
      if (child >= 0 && !visited[child]) {
        depth[child] = (depth[i] ?? 0) + 1;
        i = child;
        continue;
      }
      // Climb until a span has a sibling that is not visited yet.
      let next = -1;
      while (i !== root) {
        next = nextSibling[i] ?? -1;
        if (next >= 0 && !visited[next]) break;
        i = parent[i] ?? -1;
      }
      if (i === root) return;
      depth[next] = depth[i] ?? 0;
      i = next;
    }
  };
  for (let root = firstRoot; root >= 0; root = nextSibling[root] ?? -1) walk(root);
  // Spans whose parents form a cycle are not reachable from a root. Make the earliest span of each cycle a root.
  for (let k = 0; k < count && filled < count; k++) {
    const i = byStart[k] ?? 0;
    if (visited[i]) continue;
    parent[i] = -1;
    walk(i);
  }
  return { order, depth };
}

/** Count the spans of each subtree, including its root. @param {Int32Array} order @param {Int32Array} parent */
function subtreeSizes(order, parent) {
  const size = new Int32Array(order.length).fill(1);
  for (let k = order.length - 1; k >= 0; k--) {
    const i = order[k] ?? 0;
    const up = parent[i] ?? -1;
    if (up >= 0) size[up] = (size[up] ?? 0) + (size[i] ?? 0);
  }
  return size;
}

/**
 * Return the rows to show: spans outside of collapsed branches. With a filter, only matches and their ancestors.
 * @param {Pick<Tree, "order" | "size" | "parent">} tree
 * @param {{ has: (at: number) => boolean }} collapsed
 * @param {((at: number) => boolean) | null} matches
 * @returns {Int32Array}
 */
export function visibleRows(tree, collapsed, matches) {
  const { order, size } = tree;
  const isShown = matches && markMatches(tree, matches);
  const rows = new Int32Array(order.length);
  let count = 0;
  for (let k = 0; k < order.length; ) {
    const i = order[k] ?? 0;
    if (isShown && !isShown[i]) {
      k += size[i] ?? 1;
      continue;
    }
    rows[count++] = i;
    k += collapsed.has(i) ? (size[i] ?? 1) : 1;
  }
  return rows.subarray(0, count);
}

/** Mark the matches and their ancestors. @param {Pick<Tree, "order" | "parent">} tree @param {(at: number) => boolean} matches */
function markMatches({ order, parent }, matches) {
  const marks = new Uint8Array(order.length);
  for (const i of order) {
    if (!matches(i)) continue;
    for (let up = i; up >= 0 && !marks[up]; up = parent[up] ?? -1) marks[up] = 1;
  }
  return marks;
}
