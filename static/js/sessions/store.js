// @ts-check
// What the session page knows: spans, checks, the session's figures, what is selected. The only place that fetches them.
import { buildTree, decodeTree, Spans } from "./tree.js";

/**
 * @typedef {{ id: string, span: string, turn: number | null, step: number | null, started_at: string | null,
 *   ended_at: string | null, trigger: string, is_compaction: boolean, is_recovery: boolean, is_call: boolean, is_running: boolean, has_failed: boolean,
 *   before: number, after: number | null, window: number, trigger_tokens: number, cap_tokens: number,
 *   margin: number | null, parts: number[], after_parts: number[] | null, after_is_derived: boolean, fates: Record<string, number>,
 *   pruned_count: number, retention: number | null, fallback: string, sentence: string }} Check
 * @typedef {"spans" | "checks" | "session" | "selected" | "range"} Topic
 */

class Store {
  spans = new Spans();
  /** @type {ReturnType<typeof buildTree>} */ tree = buildTree(this.spans);
  /** @type {Check[]} */ checks = [];
  /** @type {number | null} */ projectedTurns = null;
  /** @type {Record<string, any> | null} */ session = null;
  story = "";
  selected = "";
  /** The times that the timeline is zoomed to. @type {[number, number] | null} */ range = null;
  seq = 0;
  /** What the loaded checks are as new as; nothing before they are there. @type {number | null} */ checksSeq = null;
  isLoaded = false;
  /** @type {Map<Topic, Set<() => void>>} */ #listeners = new Map();
  /** @type {Set<Topic>} */ #pending = new Set();
  /** Frames that came while checks were asked for. @type {Set<{ [key: string]: any }[]>} */ #since = new Set();
  #treeIsStale = false;

  /** @param {Topic} topic @param {() => void} listener @returns {() => void} */
  subscribe(topic, listener) {
    let set = this.#listeners.get(topic);
    if (!set) this.#listeners.set(topic, (set = new Set()));
    set.add(listener);
    return () => void set.delete(listener);
  }

  /** The tree; checks are asked for at the same time and neither waits for the other. @param {string} session */
  async load(session) {
    const base = `/api/sessions/${encodeURIComponent(session)}`;
    const tree = decodeTree(await (await fetched(`${base}/tree/`)).json());
    this.spans = new Spans();
    this.spans.addTraces(tree.traces);
    this.spans.add(tree.spans);
    this.seq = tree.seq;
    this.isLoaded = true;
    this.tree = buildTree(this.spans);
    this.#announce("spans");
  }

  /** What frames brought meanwhile is newer than the answer, and stays. @param {string} session */
  async loadChecks(session) {
    /** @type {{ [key: string]: any }[]} */ const since = [];
    this.#since.add(since);
    try {
      const answer = await fetched(`/api/sessions/${encodeURIComponent(session)}/tokens/`);
      const tokens = await answer.json();
      // Of two answers the newer holds, in whatever order they come.
      if (tokens.seq < (this.checksSeq ?? 0)) return;
      this.checks = tokens.results;
      this.checksSeq = tokens.seq;
      this.projectedTurns = tokens.projected_turns;
      this.story = tokens.story;
      for (const frame of since) if (frame.session?.seq > tokens.seq) this.#takeChecks(frame);
      this.#announce("checks");
    } finally {
      this.#since.delete(since);
    }
  }

  /** Whether the tree has been read after the checks, and may show some that they do not. */
  get checksAreOlder() {
    return this.isLoaded && this.checksSeq !== null && this.checksSeq < this.seq;
  }

  /** One frame of the session's socket. @param {{ [key: string]: any }} frame */
  take(frame) {
    if (frame.spans) {
      this.spans.add(frame.spans);
      this.#treeIsStale = true;
      this.#announce("spans");
    }
    if (frame.checks?.length) {
      for (const since of this.#since) since.push(frame);
      this.#takeChecks(frame);
      this.#announce("checks");
    }
    if (frame.session) {
      this.session = frame.session;
      this.#announce("session");
    }
  }

  /** @param {{ [key: string]: any }} frame */
  #takeChecks(frame) {
    const byId = new Map(this.checks.map((check) => [check.id, check]));
    for (const check of frame.checks) byId.set(check.id, check);
    const all = [...byId.values()].sort((a, b) => startOf(a) - startOf(b));
    // Once prompts are weighed before they are sent, that is what is drawn.
    this.checks = all.every((check) => check.is_call) ? all : all.filter((check) => !check.is_call);
    this.projectedTurns = frame.projected_turns ?? null;
    this.story = frame.story ?? this.story;
  }

  /** A trace that turned out to belong to another session has taken its spans along. */
  get hasTooMany() {
    return this.session !== null && this.session.span_count < this.spans.count;
  }

  /** @param {string} key trace:span, or nothing */
  select(key) {
    if (key === this.selected) return;
    this.selected = key;
    this.#announce("selected");
  }

  /** @param {[number, number] | null} range */
  showRange(range) {
    if (range?.[0] === this.range?.[0] && range?.[1] === this.range?.[1]) return;
    this.range = range;
    this.#announce("range");
  }

  /** What a prompt may hold, as the newest check said. */
  get windowTokens() {
    return this.checks.at(-1)?.window ?? 0;
  }

  /** Compactions in order; the n-th has the page /compactions/n/. */
  get compactions() {
    return this.checks.filter((check) => check.is_compaction);
  }

  /** Many frames may come between two paints; what they changed is told once. @param {Topic} topic */
  #announce(topic) {
    if (!this.#pending.size) requestAnimationFrame(() => this.#tell());
    this.#pending.add(topic);
  }

  #tell() {
    if (this.#treeIsStale) {
      this.tree = buildTree(this.spans, this.tree.byStart);
      this.#treeIsStale = false;
    }
    const topics = [...this.#pending];
    this.#pending.clear();
    for (const topic of topics) for (const listener of this.#listeners.get(topic) ?? []) listener();
  }
}

/** @param {Check} check */
export function startOf(check) {
  return check.started_at ? Date.parse(check.started_at) : Infinity;
}

/** Without headers of its own, so that what the page preloaded is used. @param {string} url */
async function fetched(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return answer;
}

export const store = new Store();
