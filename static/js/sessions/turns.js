// @ts-check
// Turns: one model call with its check and its tools. Spans of kind `turn` are turns. Where a tracer sends none, the spans
// that belong to one model call are grouped below the first of them. Pure.

import { kindsWith } from "../kinds.js";

/** @typedef {import("./spans.js").Spans} Spans */
/** @typedef {{ lead: number, hasCall: boolean, kinds: Set<string> }} Group */

// Tracers nest a turn a few levels deep. The limit also ends a walk around a cycle of parents.
const MAX_DEPTH = 64;
const CHECK = "compact.check";
const CALL = "generation";
/** Events with which clients that send no check span start a check. */
const FLAT_STARTS = kindsWith("starts-check");
/** Kinds that contain turns and are never part of one. */
const CONTAINERS = new Set(["trace", "agent", "task", "turn"]);

/**
 * Mark the turns, and move the spans of a turn without a turn span below its first span.
 * @param {Spans} spans
 * @param {Int32Array} parent changed
 * @param {Int32Array} byStart
 */
export function groupTurns(spans, parent, byStart) {
  const { kind } = spans.columns;
  const isTurn = new Uint8Array(parent.length);
  for (let i = 0; i < isTurn.length; i++) if (kind[i] === "turn") isTurn[i] = 1;
  const parents = groupedParents(kind, parent, isTurn);
  if (!parents.size) return isTurn;
  const original = parent.slice();
  /** @type {Map<number, Group>} */ const groups = new Map();
  for (const i of byStart) {
    const up = original[i] ?? -1;
    if (!parents.has(up)) continue;
    const name = kind[i] ?? "";
    const group = groups.get(up);
    if (CONTAINERS.has(name)) groups.delete(up);
    else if (startsTurn(name, group)) {
      groups.set(up, { lead: i, hasCall: name === CALL, kinds: new Set([name]) });
      isTurn[i] = 1;
    } else if (group) {
      parent[i] = group.lead;
      group.hasCall ||= name === CALL;
      group.kinds.add(name);
    }
  }
  return isTurn;
}

/** Return true if a span of this kind is the first of the next turn. @param {string} kind @param {Group | undefined} group */
function startsTurn(kind, group) {
  if (kind === CHECK) return true;
  if (kind === CALL) return !group || group.hasCall;
  return FLAT_STARTS.has(kind) && (!group || group.hasCall || group.kinds.has(kind));
}

/**
 * Return the parents whose children are grouped: outside of turns, and with a check or at least two model calls.
 * @param {string[]} kind
 * @param {Int32Array} parent
 * @param {Uint8Array} isTurn
 */
function groupedParents(kind, parent, isTurn) {
  /** @type {Map<number, number>} */ const starts = new Map();
  const hasTurns = new Set();
  for (let i = 0; i < parent.length; i++) {
    const name = kind[i] ?? "";
    const up = parent[i] ?? -1;
    if (isTurn[i]) hasTurns.add(up);
    else if (name === CALL || name === CHECK || FLAT_STARTS.has(name)) starts.set(up, (starts.get(up) ?? 0) + (name === CALL ? 1 : 2));
  }
  const isOutside = (/** @type {number} */ at) => !hasTurns.has(at) && !isInside(at, parent, kind);
  return new Set([...starts].filter(([at, count]) => count > 1 && isOutside(at)).map(([at]) => at));
}

/** Return true if a span is a turn, a check or a call, or inside of one. @param {number} at @param {Int32Array} parent @param {string[]} kind */
function isInside(at, parent, kind) {
  for (let up = at, depth = 0; up >= 0 && depth < MAX_DEPTH; up = parent[up] ?? -1, depth++) {
    const name = kind[up] ?? "";
    if (name === "turn" || name === CHECK || name === CALL || name === "tool") return true;
  }
  return false;
}

/** Number the turns of a session in the order of the tree. @param {Int32Array} order @param {Uint8Array} isTurn */
export function numberTurns(order, isTurn) {
  const numbers = new Int32Array(isTurn.length);
  let count = 0;
  for (const at of order) if (isTurn[at]) numbers[at] = ++count;
  return numbers;
}
