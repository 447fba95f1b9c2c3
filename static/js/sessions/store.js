// @ts-check
// State of the session page: spans, checks, session figures and selection. The only module that fetches them.
import { decodeTree, Spans } from "./spans.js";
import { buildTree } from "./tree.js";

/**
 * @typedef {{ id: string, span: string, turn: number | null, step: number | null, started_at: string | null,
 *   ended_at: string | null, trigger: string,
 *   outcome: "not_needed" | "futile" | "running" | "compacted" | "failed", is_compaction: boolean, is_recovery: boolean, is_call: boolean,
 *   is_running: boolean, has_failed: boolean, before: number, after: number | null, window: number, trigger_tokens: number,
 *   cap_tokens: number, margin: number | null, parts: number[], after_parts: number[] | null, after_is_derived: boolean,
 *   fates: Record<string, number>, pruned_count: number, facts_total: number | null, facts_kept: number | null,
 *   facts_by_kind: Record<string, { total: number, kept: number }>, weighted_retention: number | null,
 *   is_lossy: boolean, fallback: string, recovered_errors: string[], sentence: string }} Check
 * @typedef {"spans" | "checks" | "session" | "selected" | "range" | "view" | "lines"} Topic
 * @typedef {{ axis: "turn" | "time" | "tokens", gaps: boolean, wholeWindow: boolean, zoom: [number, number] | null, kind: string, find: string,
 *   only: boolean, layout: "tree" | "flame", tab: string }} View the state of the page that its address contains
 * @typedef {{ [key: string]: any }} Frame
 */

class Store {
  spans = new Spans();
  /** @type {ReturnType<typeof buildTree>} */ tree = buildTree(this.spans);
  /** @type {Check[]} */ checks = [];
  /** @type {Record<string, any> | null} */ session = null;
  /** Keys of tool calls that repeat a call from before a compaction. @type {Set<string>} */ repeats = new Set();
  /** Keys of errors after which a compaction used a fallback. They are warnings. @type {Set<string>} */ recovered = new Set();
  selected = "";
  /** Who chose the selection. The address contains it unless the page did. @type {"reader" | "address" | "page"} */ selectedBy = "page";
  /** @type {View} */ view = { axis: "turn", gaps: false, wholeWindow: false, zoom: null, kind: "", find: "", only: false, layout: "tree", tab: "" };
  /** Time range that the timeline is zoomed to. @type {[number, number] | null} */ range = null;
  seq = 0;
  /** Sequence number of the loaded checks. Null until they are loaded. @type {number | null} */ checksSeq = null;
  isLoaded = false;
  /** What follows the title of a span: arguments or a message, by span key. @type {Map<string, string>} */ lines = new Map();
  /** @type {Map<Topic, Set<() => void>>} */ #listeners = new Map();
  /** @type {Set<Topic>} */ #changedTopics = new Set();
  /** Frames received during each pending request for checks. @type {Set<Frame[]>} */ #framesDuringLoad = new Set();
  #isTreeStale = false;

  /**
   * Call a listener when a topic changes. Returns a function that unsubscribes.
   * @param {Topic} topic
   * @param {() => void} listener
   * @returns {() => void}
   */
  subscribe(topic, listener) {
    let listeners = this.#listeners.get(topic);
    if (!listeners) this.#listeners.set(topic, (listeners = new Set()));
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  /** Load the span tree. @param {string} session */
  async load(session) {
    const response = await fetchOk(`/api/sessions/${encodeURIComponent(session)}/tree/`);
    const tree = decodeTree(await response.json());
    this.spans = new Spans();
    this.spans.addTraces(tree.traces);
    this.spans.add(tree.spans);
    this.seq = tree.seq;
    this.isLoaded = true;
    this.tree = buildTree(this.spans);
    this.#notify("spans");
  }

  /** Load the checks, and apply newer frames that arrive during the request. @param {string} session */
  async loadChecks(session) {
    /** @type {Frame[]} */ const frames = [];
    this.#framesDuringLoad.add(frames);
    try {
      const response = await fetchOk(`/api/sessions/${encodeURIComponent(session)}/tokens/`);
      const tokens = await response.json();
      // Responses can arrive out of order. Ignore one that is older than the loaded checks.
      if (tokens.seq < (this.checksSeq ?? 0)) return;
      this.checks = tokens.results;
      this.checksSeq = tokens.seq;
      this.repeats = new Set(tokens.repeats);
      for (const frame of frames) if (frame.session?.seq > tokens.seq) this.#mergeChecks(frame);
      this.recovered = recoveredOf(this.checks);
      this.#notify("checks");
    } finally {
      this.#framesDuringLoad.delete(frames);
    }
  }

  /** Load the lines of spans. A failure is not repeated until the rows are drawn again. @param {string} session @param {string[]} keys */
  async loadLines(session, keys) {
    const query = new URLSearchParams(keys.map((key) => ["span", key]));
    const response = await fetchOk(`/sessions/${encodeURIComponent(session)}/lines/?${query}`);
    const lines = await response.json();
    for (const key of keys) this.lines.set(key, lines[key] ?? "");
    this.#notify("lines");
  }

  /** True if the tree is newer than the checks and may contain checks that they lack. */
  get hasOutdatedChecks() {
    return this.isLoaded && this.checksSeq !== null && this.checksSeq < this.seq;
  }

  /** Apply a frame of the session's websocket. @param {Frame} frame */
  apply(frame) {
    if (frame.spans) {
      this.spans.add(frame.spans);
      this.#isTreeStale = true;
      this.#notify("spans");
    }
    if (frame.checks?.length) {
      for (const frames of this.#framesDuringLoad) frames.push(frame);
      this.#mergeChecks(frame);
      this.recovered = recoveredOf(this.checks);
      this.#notify("checks");
    }
    if (frame.session) {
      this.session = frame.session;
      this.#notify("session");
    }
  }

  /** @param {Frame} frame */
  #mergeChecks(frame) {
    const byId = new Map(this.checks.map((check) => [check.id, check]));
    for (const check of frame.checks) byId.set(check.id, check);
    const checks = [...byId.values()].sort((a, b) => startOf(a) - startOf(b));
    // Model calls are drawn only as long as the client reports no checks.
    this.checks = checks.every((check) => check.is_call) ? checks : checks.filter((check) => !check.is_call);
  }

  /** True if the page has spans that the session no longer has, because their trace moved to another session. */
  get hasExtraSpans() {
    return this.session !== null && this.session.span_count < this.spans.count;
  }

  /**
   * Select a span, or clear the selection with an empty key.
   * @param {string} key `trace:span`
   * @param {"reader" | "address" | "page"} by
   */
  select(key, by = "reader") {
    if (key === this.selected && by === this.selectedBy) return;
    this.selectedBy = by;
    this.selected = key;
    this.#notify("selected");
  }

  /** Select the compaction that lost the most, unless something is selected or the reader cleared the selection. */
  selectWorst() {
    const worst = worstOf(this.compactions);
    const isFree = !this.selected && this.selectedBy === "page";
    if (worst && isFree && this.spans.findKey(worst.span) >= 0) this.select(worst.span, "page");
  }

  /** Status of a span, "warning" for an error after which a fallback was used. @param {number} at */
  statusOf(at) {
    const status = this.spans.columns.status[at] ?? "";
    return status === "error" && this.recovered.size && this.recovered.has(this.spans.key(at)) ? "warning" : status;
  }

  /** Number of failed spans. The figures above the chart count the same. */
  get errorCount() {
    return this.tree.errors - [...this.recovered].filter((key) => this.spans.findKey(key) >= 0).length;
  }

  /** @param {[number, number] | null} range */
  setRange(range) {
    if (range?.[0] === this.range?.[0] && range?.[1] === this.range?.[1]) return;
    this.range = range;
    this.#notify("range");
  }

  /** Change the view. @param {Partial<View>} changes */
  setView(changes) {
    const view = { ...this.view, ...changes };
    if (JSON.stringify(view) === JSON.stringify(this.view)) return;
    this.view = view;
    this.#notify("view");
  }

  /** Context window according to the newest check. */
  get windowTokens() {
    return this.checks.at(-1)?.window ?? 0;
  }

  /** Compactions in order. The n-th has the page /compactions/n/. */
  get compactions() {
    return this.checks.filter((check) => check.is_compaction);
  }

  /** Notify listeners once per animation frame, however many changes there are. @param {Topic} topic */
  #notify(topic) {
    if (!this.#changedTopics.size) requestAnimationFrame(() => this.#callListeners());
    this.#changedTopics.add(topic);
  }

  #callListeners() {
    if (this.#isTreeStale) {
      this.tree = buildTree(this.spans, this.tree.byStart);
      this.#isTreeStale = false;
    }
    const topics = [...this.#changedTopics];
    this.#changedTopics.clear();
    for (const topic of topics) for (const listener of this.#listeners.get(topic) ?? []) listener();
  }
}

/** Keys of errors after which a fallback was used. @param {Check[]} checks */
export function recoveredOf(checks) {
  return new Set(checks.flatMap((check) => check.recovered_errors));
}

/** Start of a check in Unix milliseconds. Checks without one sort last. @param {Check} check */
export function startOf(check) {
  return check.started_at ? Date.parse(check.started_at) : Infinity;
}

/** Return the compaction that kept the fewest facts, else needed a fallback, else freed the most. @param {Check[]} compactions */
export function worstOf(compactions) {
  /** @param {Check} check */
  const badness = (check) => [
    check.facts_total ? 1 - (check.facts_kept ?? 0) / check.facts_total : 0,
    check.fallback ? 1 : 0,
    check.before - (check.after ?? check.before),
  ];
  /** @type {Check | undefined} */ let worst;
  for (const check of compactions) {
    const [a, b] = [badness(check), worst ? badness(worst) : []];
    const first = a.findIndex((value, i) => value !== b[i]);
    if (!worst || (a[first] ?? 0) > (b[first] ?? 0)) worst = check;
  }
  return worst;
}

/** Fetch without extra headers, so that the browser uses the page's preloaded response. @param {string} url */
async function fetchOk(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: HTTP ${response.status}`);
  return response;
}

export const store = new Store();
