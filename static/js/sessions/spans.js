// @ts-check
// The spans of a session, stored as columns and merged by trace and id.
import { IdIndex } from "./id-index.js";

/**
 * Spans as columns, as the server sends them. Times are Unix milliseconds.
 * @typedef {{ trace: string[], id: string[], parent: (string | null)[], kind: string[], name: string[], status: string[],
 *   start: (number | null)[], end: (number | null)[], tokens: (number | null)[] }} Columns
 * @typedef {{ id: string, name: string, start: number | null, end: number | null }} Trace
 */

/**
 * Prepare the response of /api/sessions/{id}/tree/. Its `trace` column is null if all spans belong to the only trace.
 * @param {{ seq: number, traces: Trace[], spans: Omit<Columns, "trace"> & { trace: string[] | null } }} response
 * @returns {{ seq: number, traces: Trace[], spans: Columns }}
 */
export function decodeTree({ seq, traces, spans }) {
  const trace = spans.trace ?? new Array(spans.id.length).fill(traces[0]?.id ?? "");
  for (const column of [trace, spans.kind, spans.name, spans.status]) internStrings(column);
  return { seq, traces, spans: { ...spans, trace } };
}

/** Replace equal strings by one string to save memory: 100,000 spans have a dozen kinds. @param {string[]} column */
function internStrings(column) {
  /** @type {Map<string, string>} */ const strings = new Map();
  for (let i = 0; i < column.length; i++) {
    const text = column[i] ?? "";
    const known = strings.get(text);
    if (known === undefined) strings.set(text, text);
    else column[i] = known;
  }
}

export class Spans {
  /** @type {Columns} */
  columns = { trace: [], id: [], parent: [], kind: [], name: [], status: [], start: [], end: [], tokens: [] };
  #index = new IdIndex(this.columns.id, this.columns.trace);
  /** @type {Map<string, Trace>} */ #traces = new Map();
  #traceRows = 0;

  get length() {
    return this.columns.id.length;
  }

  /** Number of spans without the rows added for traces. */
  get count() {
    return this.length - this.#traceRows;
  }

  /** @param {Trace[]} traces */
  addTraces(traces) {
    for (const trace of traces) this.#traces.set(trace.id, trace);
  }

  /** If there are several traces, add a row of kind `trace` with an empty id for each. It becomes the root of its spans. */
  addTraceRows() {
    if (this.#index.traceCount < 2) return;
    const { columns } = this;
    for (const id of this.#index.traces) {
      if (this.#index.find(id, "") >= 0) continue;
      const trace = this.#traces.get(id);
      columns.trace.push(id);
      columns.id.push("");
      this.#index.add(columns.id.length - 1);
      this.#traceRows++;
      columns.parent.push(null);
      columns.kind.push("trace");
      columns.name.push(trace?.name || `Trace ${id.slice(0, 12)}`);
      columns.status.push("");
      columns.start.push(trace?.start ?? null);
      columns.end.push(trace?.end ?? trace?.start ?? null);
      columns.tokens.push(null);
    }
  }

  /** Add spans. A span that is already known is replaced. @param {Columns} more */
  add(more) {
    const own = this.columns;
    // The first load is the largest. Use its arrays without copying.
    if (own.id.length === 0) {
      this.columns = more;
      this.#index = new IdIndex(more.id, more.trace);
      return;
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
    }
  }

  /** Return the position of a span, or -1. An empty trace searches all traces. @param {string} trace @param {string} id */
  find(trace, id) {
    if (trace) return this.#index.find(trace, id);
    for (const owner of this.#index.traces) {
      const at = this.#index.find(owner, id);
      if (at >= 0) return at;
    }
    return -1;
  }

  /** Find a span by `trace:span` or by its id alone. Both parts may contain colons. @param {string} key */
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
