// What the session page knows when answers and frames cross on their way.
import assert from "node:assert/strict";
import { test } from "node:test";

/** @type {((answer: unknown) => void)[]} */ const asked = [];
globalThis.requestAnimationFrame = () => 0;
globalThis.fetch = () => new Promise((answer) => asked.push((body) => answer({ ok: true, json: async () => body })));
const { store } = await import("../../static/js/sessions/store.js");

const check = (id, before) => ({ id, span: id, started_at: `2026-03-02T09:00:0${id}Z`, before, is_call: false });
const tokens = (seq, ...results) => ({ seq, results, projected_turns: seq, story: `as of ${seq}` });
const frame = (seq, ...checks) => ({ seq: seq + 100, checks, session: { seq }, projected_turns: seq, story: `as of ${seq}` });

test("a check that a frame brought is not taken away by an older answer", async () => {
  const loading = store.loadChecks("one");
  store.take(frame(7, check("2", 20)));
  asked.shift()(tokens(5, check("1", 10)));
  await loading;
  assert.deepEqual(store.checks.map(({ id }) => id), ["1", "2"]);
  assert.equal(store.story, "as of 7");
});

test("a newer answer holds against the frames that it has already seen", async () => {
  const loading = store.loadChecks("one");
  store.take(frame(8, check("2", 21)));
  asked.shift()(tokens(9, check("1", 10), check("2", 22)));
  await loading;
  assert.deepEqual(store.checks.map(({ before }) => before), [10, 22]);
});

test("of two answers the newer holds, in whatever order they come", async () => {
  const loading = [store.loadChecks("one"), store.loadChecks("one")];
  const [first, second] = asked.splice(0);
  second(tokens(12, check("3", 30)));
  await loading[1];
  first(tokens(11, check("1", 10)));
  await loading[0];
  assert.deepEqual(store.checks.map(({ id }) => id), ["3"]);
});
