// Kinds of spans are names that agents choose, so any string must be one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { kindOf, kindsWith } from "../../static/js/kinds.js";
import { Spans } from "../../static/js/sessions/spans.js";
import { laneEvents } from "../../static/js/sessions/timeline/events.js";

const HOSTILE = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf"];

/** Return the lane of a session with one check and one span of each kind. */
function laneOf(kinds) {
  const spans = new Spans();
  const column = (value) => kinds.map(() => value);
  spans.add({ trace: column("t"), id: kinds.map((_, i) => `s${i}`), parent: column(null), kind: kinds, name: column("n"), status: column("ok"), start: column(2), end: column(3), tokens: column(null) });
  const check = { id: "c", span: "t:c", started_at: new Date(1).toISOString(), recovered_errors: [], trigger: "preflight", is_recovery: false, sentence: "" };
  return laneEvents({ spans, checks: [check], repeats: new Set() });
}

test("a kind with the name of a property of every object is an unknown kind", () => {
  for (const name of HOSTILE) assert.deepEqual([kindOf(name).icon, kindOf(name).lane, kindOf(name).traits], ["span", "", []]);
  assert.deepEqual(laneOf(HOSTILE), []);
});

test("the lane has the marks of the table", () => {
  const marks = laneOf(["compact.error", "compact.warning", "compact.recall", "compact.overflow_recovered", "tool"]);
  assert.deepEqual(marks.map((mark) => mark.kind), ["error", "warning", "recall", "overflow"]);
});

test("traits come from the table", () => {
  assert.ok(kindsWith("starts-check").has("compact.token_estimate"));
  assert.ok(kindsWith("shrinks-prompt").has("compact.pruned_messages"));
  assert.ok(!kindsWith("has-line").has("compact.check"));
});
