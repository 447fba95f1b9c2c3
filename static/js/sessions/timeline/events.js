// @ts-check
// Events of the lane below the bars: errors, overflows, warnings, repeated tool calls and recalls. Pure.
import { kindOf, titleOf } from "../../kinds.js";
import { recoveredOf, startOf } from "../store.js";

/** @typedef {import("./layout.js").LaneEvent} LaneEvent */

/**
 * Collect the events of a session. Each belongs to the last check that started before it.
 * @param {{ spans: import("../spans.js").Spans, checks: import("../store.js").Check[], repeats: Set<string> }} session
 * @returns {LaneEvent[]}
 */
export function laneEvents({ spans, checks, repeats }) {
  if (!checks.length) return [];
  const { kind, name, status, start } = spans.columns;
  const starts = checks.map(startOf);
  const recovered = recoveredOf(checks);
  /** @type {LaneEvent[]} */ const events = [];
  for (let at = 0; at < kind.length; at++) {
    const { lane } = kindOf(kind[at] ?? "");
    const failed = status[at] === "error" || lane === "error";
    const own = failed && recovered.has(spans.key(at)) ? "warning" : lane || (failed ? "error" : "");
    const isRepeat = repeats.size > 0 && kind[at] === "tool" && repeats.has(spans.key(at));
    if (!own && !isRepeat) continue;
    const index = lastBefore(starts, start[at] ?? 0);
    const base = { index, span: spans.key(at), text: titleOf(kind[at] ?? "", name[at] ?? "") };
    if (own) events.push({ ...base, kind: own });
    if (isRepeat) events.push({ ...base, kind: "reread" });
  }
  checks.forEach((check, index) => {
    if (check.is_recovery || check.trigger === "overflow") events.push({ index, kind: "overflow", span: check.span, text: check.sentence });
  });
  return withoutDuplicates(events);
}

/** Index of the last start that is not after a time, or 0. @param {number[]} starts in order @param {number} time */
function lastBefore(starts, time) {
  let [low, high] = [0, starts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? Infinity) <= time) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

/** A check of an overflow and its own event are one overflow. @param {LaneEvent[]} events */
function withoutDuplicates(events) {
  const seen = new Set();
  return events.filter(({ index, kind }) => {
    const key = `overflow:${index}`;
    if (kind !== "overflow") return true;
    return seen.has(key) ? false : seen.add(key);
  });
}
