// How numbers and times read, also those that make little sense.
import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, relative, shortTokens } from "../../static/js/format.js";

test("an end before its start is no time", () => {
  assert.equal(duration(-31_536_000_000), "–");
  assert.equal(duration(0), "0 ms");
});

test("tokens fit beside an axis, however many there are", () => {
  assert.deepEqual([999, 9_500, 109_312, 1_500_000, 2_147_483_647].map(shortTokens), ["999", "9.5k", "109k", "1.5M", "2.1B"]);
});

test("a time beyond a month is a date, before and after now", () => {
  const now = Date.UTC(2026, 2, 15, 12);
  assert.equal(relative(now + 3_600_000, now), "in 1 h");
  assert.equal(relative(now - 3_600_000, now), "1 h ago");
  assert.match(relative(Date.UTC(2090, 5, 15, 12), now), /Jun 2090$/);
  assert.match(relative(Date.UTC(1970, 5, 15, 12), now), /Jun 1970$/);
});
