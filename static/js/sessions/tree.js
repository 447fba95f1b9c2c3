// @ts-check
// Spans in any order to the rows of a tree. Pure, iterative, and quick for 100,000 spans a thousand levels deep.

import { IdIndex } from "./id-index.js";

/**
 * Spans as columns, the way the server sends them.
 * @typedef {{ trace: string[], id: string[], parent: (string | null)[], kind: string[], name: string[], status: string[],
 *   start: (number | null)[], end: (number | null)[], tokens: (number | null)[] }} Columns
 * @typedef {{ id: string, name: string, start: number | null, end: number | null }} Trace
 */

/** @returns {Columns} */
function emptyColumns() {
  return { trace: [], id: [], parent: [], kind: [], name: [], status: [], start: [], end: [], tokens: [] };
}

/**
 * Prepare the response of /api/sessions/{id}/tree/. Its `trace` column is null if all spans belong to the only trace.
 * @param {{ seq: number, traces: Trace[], spans: Omit<Columns, "trace"> & { trace: string[] | null } }} response
 * @returns {{ seq: number, traces: Trace[], spans: Columns }}
 */
export function decodeTree({ seq, traces, spans }) {
  const trace = spans.trace ?? new Array(spans.id.length).fill(traces[0]?.id ?? "");
  for (const column of [trace, spans.kind, spans.name, spans.status]) shared(column);
  return { seq, traces, spans: { ...spans, trace } };
}

/** One string for equal strings: a hundred thousand spans have a dozen kinds. @param {string[]} column */
function shared(column) {
  /** @type {Map<string, string>} */ const known = new Map();
  for (let i = 0; i < column.length; i++) {
    const text = column[i] ?? "";
    const same = known.get(text);
    if (same === undefined) known.set(text, text);
    else column[i] = same;
  }
  return column;
}

/** The spans of a session; a span that comes again fills in what it adds. */
export class Spans {
  columns = emptyColumns();
  #index = new IdIndex(this.columns.id, this.columns.trace);
  /** @type {Map<string, Trace>} */ #traces = new Map();
  #traceRows = 0;

  get length() {
    return this.columns.id.length;
  }

  /** How many the server knows of: without the rows that were made for traces. */
  get count() {
    return this.length - this.#traceRows;
  }

  /** @param {Trace[]} traces */
  addTraces(traces) {
    for (const trace of traces) this.#traces.set(trace.id, trace);
  }

  /** Of several traces each becomes a branch of its own, a row of kind `trace` whose id is empty. */
  addTraceRows() {
    if (this.#index.traceCount < 2) return;
    const { columns } = this;
    for (const trace of this.#index.traces) {
      if (this.#index.find(trace, "") >= 0) continue;
      const known = this.#traces.get(trace);
      columns.trace.push(trace);
      columns.id.push("");
      this.#index.add(columns.id.length - 1);
      this.#traceRows++;
      columns.parent.push(null);
      columns.kind.push("trace");
      columns.name.push(known?.name || `Trace ${trace.slice(0, 12)}`);
      columns.status.push("");
      columns.start.push(known?.start ?? null);
      columns.end.push(known?.end ?? known?.start ?? null);
      columns.tokens.push(null);
    }
  }

  /** @param {Columns} more @returns {number[]} the indices that changed */
  add(more) {
    const own = this.columns;
    const changed = [];
    // The first load is the large one: take the arrays as they are.
    if (own.id.length === 0) {
      this.columns = more;
      this.#index = new IdIndex(more.id, more.trace);
      return [];
    }
    for (let i = 0; i < more.id.length; i++) {
      const trace = more.trace[i] ?? "";
      const id = more.id[i] ?? "";
      let at = this.#index.find(trace, id);
      if (at < 0) {
        at = own.id.length;
        own.trace.push(trace);
        own.id.push(id);
        this.#index.add(at);
      }
      own.parent[at] = more.parent[i] ?? null;
      own.kind[at] = more.kind[i] ?? "";
      own.name[at] = more.name[i] ?? "";
      own.status[at] = more.status[i] ?? "";
      own.start[at] = more.start[i] ?? null;
      own.end[at] = more.end[i] ?? null;
      own.tokens[at] = more.tokens[i] ?? null;
      changed.push(at);
    }
    return changed;
  }

  /** @param {string} trace @param {string} id */
  find(trace, id) {
    if (trace) return this.#index.find(trace, id);
    for (const owner of this.#index.traces) {
      const at = this.#index.find(owner, id);
      if (at >= 0) return at;
    }
    return -1;
  }

  /** By `trace:span`, or by the span's id alone; ids may hold colons themselves. @param {string} key */
  findKey(key) {
    for (let colon = key.lastIndexOf(":"); colon > 0; colon = key.lastIndexOf(":", colon - 1)) {
      const at = this.find(key.slice(0, colon), key.slice(colon + 1));
      if (at >= 0) return at;
    }
    return key ? this.find("", key) : -1;
  }

  /** @param {number} at */
  key(at) {
    return `${this.columns.trace[at]}:${this.columns.id[at]}`;
  }
}

/**
 * Every span once, parents before children, siblings by start.
 * @typedef {{ order: Int32Array, depth: Int32Array, size: Int32Array, parent: Int32Array, from: number, to: number,
 *   errors: number, running: number }} Tree
 */

/**
 * @param {Spans} spans
 * @param {Int32Array} [last] the order of starts from the time before; nearly sorted input sorts in one pass
 * @returns {Tree & { byStart: Int32Array }}
 */
export function buildTree(spans, last) {
  spans.addTraceRows();
  const { parent: parents, trace, start, end, status, id } = spans.columns;
  const count = spans.length;
  const parent = new Int32Array(count).fill(-1);
  const startAt = new Float64Array(count);
  let from = Infinity;
  let to = -Infinity;
  let errors = 0;
  let running = 0;
  /** @type {string | null | undefined} */ let lastName = null;
  let lastAt = -1;
  let at = -1;
  for (let i = 0; i < count; i++) {
    const began = start[i] ?? end[i] ?? null;
    const over = end[i] ?? null;
    startAt[i] = began ?? Infinity;
    if (began !== null) {
      if (began < from) from = began;
      if (began > to) to = began;
    }
    if (over !== null && over > to) to = over;
    if (over === null && began !== null) running++;
    if (status[i] === "error") errors++;
    const name = parents[i];
    // Siblings often come one after the other; then their parent is known.
    if (!name) at = -1;
    else if (name !== lastName || trace[i] !== trace[i - 1]) at = spans.find(trace[i] ?? "", name);
    else at = lastAt;
    lastName = name;
    lastAt = at;
    if (at < 0 && id[i]) at = spans.find(trace[i] ?? "\0", "");
    if (at !== i) parent[i] = at;
  }
  spanTraces(spans, parent, startAt);
  const byStart = new Int32Array(count);
  if (last && last.length <= count) byStart.set(last);
  for (let i = last && last.length <= count ? last.length : 0; i < count; i++) byStart[i] = i;
  const isSorted = byStart.every((at, i) => i === 0 || (startAt[byStart[i - 1] ?? 0] ?? 0) <= (startAt[at] ?? 0));
  if (!isSorted) byStart.sort((a, b) => (startAt[a] ?? 0) - (startAt[b] ?? 0) || a - b);

  // Children as linked lists, filled from the last start to the first so that each list is in order.
  const firstChild = new Int32Array(count).fill(-1);
  const nextSibling = new Int32Array(count).fill(-1);
  let firstRoot = -1;
  for (let k = count - 1; k >= 0; k--) {
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

  const order = new Int32Array(count);
  const depth = new Int32Array(count);
  const size = new Int32Array(count);
  const seen = new Uint8Array(count);
  let filled = 0;
  const walk = (/** @type {number} */ root) => {
    let i = root;
    while (i >= 0) {
      seen[i] = 1;
      order[filled++] = i;
      const child = firstChild[i] ?? -1;
      if (child >= 0 && !seen[child]) {
        depth[child] = (depth[i] ?? 0) + 1;
        i = child;
        continue;
      }
      size[i] = 1;
      for (;;) {
        if (i === root) return;
        const next = nextSibling[i] ?? -1;
        const up = parent[i] ?? -1;
        if (next >= 0 && !seen[next]) {
          depth[next] = depth[i] ?? 0;
          i = next;
          break;
        }
        // The subtree of `up` is complete: all rows since it were its own.
        i = up;
      }
    }
  };
  for (let root = firstRoot; root >= 0; root = nextSibling[root] ?? -1) walk(root);
  // Spans whose parents form a circle hang from no root; each circle is opened at its first span.
  for (let k = 0; k < count && filled < count; k++) {
    const i = byStart[k] ?? 0;
    if (seen[i]) continue;
    parent[i] = -1;
    walk(i);
  }
  fillSizes(order, parent, size);
  if (from === Infinity) from = to = 0;
  return { order, depth, size, parent, from, to, errors, running, byStart };
}

/** A trace begins with the first of its spans and ends with the last, whatever was said of it. @param {Spans} spans @param {Int32Array} parent @param {Float64Array} startAt */
function spanTraces(spans, parent, startAt) {
  const { kind, id, start, end } = spans.columns;
  for (let i = 0; i < parent.length; i++) {
    const up = parent[i] ?? -1;
    if (up < 0 || kind[up] !== "trace" || id[up]) continue;
    const began = start[i] ?? null;
    if (began !== null && began < (startAt[up] ?? Infinity)) {
      startAt[up] = began;
      start[up] = began;
    }
    const over = end[i] ?? began;
    if (over !== null && over > (end[up] ?? -Infinity)) end[up] = over;
  }
}

/** How many rows each span's subtree has, itself included. @param {Int32Array} order @param {Int32Array} parent @param {Int32Array} size */
function fillSizes(order, parent, size) {
  size.fill(1);
  for (let k = order.length - 1; k >= 0; k--) {
    const i = order[k] ?? 0;
    const up = parent[i] ?? -1;
    if (up >= 0) size[up] = (size[up] ?? 0) + (size[i] ?? 0);
  }
}

/**
 * The rows to show: what is not inside a closed branch, and with a filter only what matches and what leads there.
 * @param {Tree} tree
 * @param {Set<number>} closed
 * @param {((at: number) => boolean) | null} matches
 * @returns {Int32Array}
 */
export function visibleRows(tree, closed, matches) {
  const { order, size, parent } = tree;
  /** @type {Uint8Array | null} */ let wanted = null;
  if (matches) {
    wanted = new Uint8Array(order.length);
    for (const i of order) {
      if (!matches(i)) continue;
      for (let up = i; up >= 0 && !wanted[up]; up = parent[up] ?? -1) wanted[up] = 1;
    }
  }
  const rows = new Int32Array(order.length);
  let count = 0;
  for (let k = 0; k < order.length; ) {
    const i = order[k] ?? 0;
    if (wanted && !wanted[i]) {
      k += size[i] ?? 1;
      continue;
    }
    rows[count++] = i;
    k += closed.has(i) ? (size[i] ?? 1) : 1;
  }
  return rows.subarray(0, count);
}
