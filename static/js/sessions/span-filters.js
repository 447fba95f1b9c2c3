// @ts-check
// Filters of the span tree that are not the name of a kind.
import { kindOf, kindsWith } from "../kinds.js";
import { store } from "./store.js";

const CHECK_EVENTS = kindsWith("every-check");

/**
 * Return the predicate of a filter, or null without one.
 * @param {string} name
 * @param {(at: number) => boolean} isCompaction true for the first span of a check that compacted
 * @returns {((at: number) => boolean) | null}
 */
export function filterOf(name, isCompaction) {
  const { kind, start, end } = store.spans.columns;
  switch (name) {
    case "":
      return null;
    case "compact":
      return (at) => Boolean(kind[at]?.startsWith("compact.")) && (!CHECK_EVENTS.has(kind[at] ?? "") || isWithin(at, isCompaction));
    case "check":
      return (at) => CHECK_EVENTS.has(kind[at] ?? "");
    case "error":
      return (at) => store.statusOf(at) === "error";
    case "warning":
      return (at) => store.statusOf(at) === "warning" || kindOf(kind[at] ?? "").lane === "warning";
    case "running":
      return (at) => end[at] == null && start[at] != null;
    case "turn":
      return (at) => (store.tree.turn[at] ?? 0) > 0;
    default:
      return (at) => kind[at] === name;
  }
}

/** Return true if a span or one of its ancestors has a property. @param {number} at @param {(at: number) => boolean} has */
function isWithin(at, has) {
  for (let up = at; up >= 0; up = store.tree.parent[up] ?? -1) if (has(up)) return true;
  return false;
}
