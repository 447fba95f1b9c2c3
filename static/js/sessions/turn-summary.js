// @ts-check
// What a turn's row shows: its model, its tool calls, and how much room its check left.
import { shortTokens } from "../format.js";
import { resultOf } from "./timeline/layout.js";

/** @typedef {import("./store.js").Check} Check */
/** @typedef {import("./tree.js").Tree} Tree */
/**
 * `calls` are positions of tool calls. `from` and `to` cover the spans of the turn. `to` is null while one of them runs.
 * @typedef {{ model: string, calls: number[], errors: number, from: number | null, to: number | null }} TurnSummary
 * @typedef {{ text: string, tone: "" | "warn" | "bad" | "compaction", title: string }} Chip
 */

// A turn with more spans is summarized from its first ones.
const MAX_SPANS = 2_000;
const MAX_CALLS = 4;
// Less room than this share of the trigger is a warning.
const LOW_SHARE = 0.1;

/**
 * @param {import("./spans.js").Spans} spans
 * @param {Tree} tree
 * @param {number} at the turn
 * @param {Set<string>} recovered keys of errors that do not count, because a fallback was used
 * @returns {TurnSummary}
 */
export function summarizeTurn(spans, tree, at, recovered) {
  const { kind, name, status, start, end } = spans.columns;
  const first = tree.place[at] ?? 0;
  const last = first + Math.min(MAX_SPANS, tree.size[at] ?? 1);
  /** @type {{ model: string, calls: number[], errors: number }} */ const summary = { model: "", calls: [], errors: 0 };
  let [from, to, isRunning] = [Infinity, -Infinity, false];
  for (let k = first; k < last; k++) {
    const i = tree.order[k] ?? 0;
    if (kind[i] === "generation") summary.model ||= modelOf(name[i] ?? "");
    else if (kind[i] === "tool" && summary.calls.length <= MAX_CALLS) summary.calls.push(i);
    if (status[i] === "error" && !recovered.has(spans.key(i))) summary.errors++;
    const startTime = start[i] ?? null;
    if (startTime === null) continue;
    from = Math.min(from, startTime);
    to = Math.max(to, end[i] ?? startTime);
    isRunning ||= end[i] == null;
  }
  return { ...summary, from: from === Infinity ? null : from, to: from === Infinity || isRunning ? null : to };
}

/** OpenTelemetry names a call after its operation, "chat gpt-5". @param {string} name */
function modelOf(name) {
  return name.replace(/^(chat|text_completion|generate_content) /, "");
}

/**
 * Write the tool calls of a turn, such as `read_file(path="a.py") +2`.
 * @param {string[]} names
 * @param {string[]} lines the arguments of each call, in parentheses
 */
export function formatCalls(names, lines) {
  const shown = names.slice(0, 1).map((name, i) => `${name}${lines[i] ?? ""}`);
  const more = names.length - shown.length;
  return `${shown.join(", ")}${more > 0 ? ` +${more > MAX_CALLS - 1 ? `${MAX_CALLS - 1} or more` : more}` : ""}`;
}

/** Describe the room that a check left before the trigger, or its result. @param {Check | undefined} check @returns {Chip | null} */
export function headroomOf(check) {
  if (!check || check.is_call) return null;
  const base = { title: check.sentence };
  if (check.is_recovery) return { ...base, text: `overflow ${resultOf(check)}`, tone: "bad" };
  if (check.has_failed) return { ...base, text: "compaction failed", tone: "bad" };
  if (check.is_compaction) return { ...base, text: resultOf(check), tone: check.fallback ? "warn" : "compaction" };
  if (check.outcome === "running") return { ...base, text: resultOf(check), tone: "compaction" };
  if (check.margin === null) return null;
  if (check.margin <= 0) return { ...base, text: "over trigger", tone: "warn" };
  return { ...base, text: `${shortTokens(check.margin)} left`, tone: check.margin < check.trigger_tokens * LOW_SHARE ? "warn" : "" };
}
