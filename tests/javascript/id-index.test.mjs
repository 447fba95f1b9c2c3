// Index of spans by trace and id.
import assert from "node:assert/strict";
import { test } from "node:test";
import { IdIndex } from "../../static/js/sessions/id-index.js";

test("finds every span by trace and id, and nothing else", () => {
  const ids = Array.from({ length: 5_000 }, (_, i) => `span-${i % 2_500}`);
  const owners = ids.map((_, i) => (i < 2_500 ? "one" : "two"));
  const index = new IdIndex(ids, owners);
  for (let at = 0; at < ids.length; at++) assert.equal(index.find(owners[at], ids[at]), at);
  assert.equal(index.find("one", "span-2500"), -1);
  assert.equal(index.find("three", "span-1"), -1);
  assert.deepEqual([...index.traces], ["one", "two"]);
});

test("grows beyond its initial size", () => {
  const ids = [];
  const owners = [];
  const index = new IdIndex(ids, owners);
  for (let at = 0; at < 3_000; at++) {
    ids.push(`late ${at}`);
    owners.push(`trace ${at % 7}`);
    index.add(at);
    assert.equal(index.find(owners[at], ids[at]), at);
  }
  for (let at = 0; at < ids.length; at++) assert.equal(index.find(owners[at], ids[at]), at);
  assert.equal(index.traceCount, 7);
});

test("a later span replaces one with the same trace and id", () => {
  const index = new IdIndex(["a", "b", "a"], ["t", "t", "t"]);
  assert.equal(index.find("t", "a"), 2);
  assert.equal(index.find("t", "b"), 1);
});

test("finds ids whose hashes collide", () => {
  // A thousand ids of one length and alphabet are certain to collide in a small table.
  const ids = [];
  for (const a of "abcdefghij") for (const b of "abcdefghij") for (const c of "abcdefghij") ids.push(a + b + c);
  const index = new IdIndex(ids, ids.map(() => ""));
  ids.forEach((id, at) => assert.equal(index.find("", id), at));
});
