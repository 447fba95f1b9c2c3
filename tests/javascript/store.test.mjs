// The store, when responses and live frames overlap.
import assert from "node:assert/strict";
import { test } from "node:test";

/** Resolvers of pending requests. @type {((body: unknown) => void)[]} */ const requests = [];
globalThis.requestAnimationFrame = () => 0;
globalThis.fetch = () => new Promise((resolve) => requests.push((body) => resolve({ ok: true, json: async () => body })));
const { store } = await import("../../static/js/sessions/store.js");

const check = (id, before) => ({ id, span: id, started_at: `2026-03-02T09:00:0${id}Z`, before, is_call: false });
const tokens = (seq, ...results) => ({ seq, results });
const frame = (seq, ...checks) => ({ seq: seq + 100, checks, session: { seq } });

test("an older response does not remove a check from a frame", async () => {
  const loading = store.loadChecks("one");
  store.apply(frame(7, check("2", 20)));
  requests.shift()(tokens(5, check("1", 10)));
  await loading;
  assert.deepEqual(store.checks.map(({ id }) => id), ["1", "2"]);
});

test("a newer response wins over the frames that it includes", async () => {
  const loading = store.loadChecks("one");
  store.apply(frame(8, check("2", 21)));
  requests.shift()(tokens(9, check("1", 10), check("2", 22)));
  await loading;
  assert.deepEqual(store.checks.map(({ before }) => before), [10, 22]);
});

test("the newer of two responses wins, in any order", async () => {
  const loading = [store.loadChecks("one"), store.loadChecks("one")];
  const [first, second] = requests.splice(0);
  second(tokens(12, check("3", 30)));
  await loading[1];
  first(tokens(11, check("1", 10)));
  await loading[0];
  assert.deepEqual(store.checks.map(({ id }) => id), ["3"]);
});
