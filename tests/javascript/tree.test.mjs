// Spans and the rows of their tree.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeTree, Spans } from "../../static/js/sessions/spans.js";
import { buildTree, visibleRows } from "../../static/js/sessions/tree.js";

/** Build spans from rows of [id, parent, start], by default in one trace. */
function createSpans(rows, traces = rows.map(() => "t")) {
  const spans = new Spans();
  const column = (make) => rows.map(make);
  spans.add({
    trace: traces,
    id: column((row) => row[0]),
    parent: column((row) => row[1]),
    kind: column(() => "span"),
    name: column((row) => row[0]),
    status: column(() => "ok"),
    start: column((row) => row[2]),
    end: column((row) => row[2] + 1),
    tokens: column(() => null),
  });
  return spans;
}

const names = (spans, rows) => [...rows].map((at) => spans.columns.id[at]);

test("parents come before children and siblings are sorted by start", () => {
  const rows = [["child 2", "root", 3], ["leaf", "child 1", 2], ["root", null, 0], ["child 1", "root", 1]];
  const spans = createSpans(rows);
  const tree = buildTree(spans);
  assert.deepEqual(names(spans, tree.order), ["root", "child 1", "leaf", "child 2"]);
  assert.deepEqual([...tree.order].map((at) => tree.depth[at]), [0, 1, 2, 1]);
});

test("a cycle of parents is broken and every span is one row", () => {
  const spans = createSpans([["a", "b", 0], ["b", "a", 1], ["c", "c", 2]]);
  const tree = buildTree(spans);
  assert.deepEqual(names(spans, tree.order).sort(), ["a", "b", "c"]);
});

test("100,000 nested spans do not overflow the stack", () => {
  const spans = createSpans(Array.from({ length: 100_000 }, (_, i) => [`s${i}`, i ? `s${i - 1}` : null, i]));
  const tree = buildTree(spans);
  assert.equal(tree.depth[99_999], 99_999);
  assert.equal(visibleRows(tree, new Set([0]), null).length, 1);
});

test("a filter shows matches and their ancestors", () => {
  const spans = createSpans([["root", null, 0], ["a", "root", 1], ["b", "root", 2], ["deep", "b", 3]]);
  const tree = buildTree(spans);
  const rows = visibleRows(tree, new Set(), (at) => spans.columns.id[at] === "deep");
  assert.deepEqual(names(spans, rows), ["root", "b", "deep"]);
});

test("several traces become branches that are not counted as spans", () => {
  const spans = createSpans([["a", null, 0], ["b", null, 1]], ["one", "two"]);
  const tree = buildTree(spans);
  assert.equal(tree.order.length, 4);
  assert.equal(spans.count, 2);
});

test("the only trace is filled in for every span", () => {
  const columns = { id: ["a", "b"], parent: [null, "a"], kind: ["turn", "tool"], name: ["Turn", "rèad"], status: ["ok", "error"], start: [1, 2], end: [3, null], tokens: [null, 3] };
  const { seq, spans } = decodeTree({ seq: 7, traces: [{ id: "t", name: "", start: null, end: null }], spans: { trace: null, ...columns } });
  assert.equal(seq, 7);
  assert.deepEqual(spans, { trace: ["t", "t"], ...columns });
});

/** Build spans from rows of [id, parent, kind], in the order of their start. */
function createKinds(rows) {
  const spans = createSpans(rows.map(([id, parent], i) => [id, parent, i * 10]));
  spans.columns.kind = rows.map((row) => row[2]);
  return spans;
}

test("spans without turn spans are grouped by model call", () => {
  const spans = createKinds([
    ["agent", null, "agent"],
    ["check 1", "agent", "compact.check"],
    ["estimate", "check 1", "compact.token_estimate"],
    ["call 1", "agent", "generation"],
    ["tool 1", "agent", "tool"],
    ["call 2", "agent", "generation"],
    ["tool 2", "agent", "tool"],
  ]);
  const tree = buildTree(spans);
  const turns = [...tree.order].filter((at) => tree.turn[at]);
  assert.deepEqual(names(spans, turns), ["check 1", "call 2"]);
  assert.deepEqual(names(spans, [3, 4, 6].map((at) => tree.parent[at])), ["check 1", "check 1", "call 2"]);
  assert.equal(tree.size[1], 4);
});

test("turn spans are turns and nothing else is moved", () => {
  const spans = createKinds([["t1", null, "turn"], ["c1", "t1", "generation"], ["c2", "t1", "generation"], ["t2", null, "turn"]]);
  const tree = buildTree(spans);
  assert.deepEqual([...tree.turn], [1, 0, 0, 2]);
  assert.deepEqual([...tree.parent], [-1, 0, 0, -1]);
});

test("a single model call is a span and not a turn", () => {
  const tree = buildTree(createKinds([["a", null, "agent"], ["c", "a", "generation"], ["t", "a", "tool"]]));
  assert.deepEqual([...tree.turn], [0, 0, 0]);
});

test("a wrong clock doesn't change the range of the session", () => {
  const spans = createSpans([["a", null, 1.7e12], ["b", "a", 1.7e12 + 5_000], ["old", "a", 6e11], ["c", "b", 1.7e12 + 1_000]]);
  const tree = buildTree(spans);
  assert.equal(tree.to - tree.from, 5_001);
  assert.deepEqual(tree.skew, { far: 1, early: 1, earlyMs: 4_000 });
});
