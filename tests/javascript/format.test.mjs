// Formatting of numbers and times.
import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, relativeTime, shortTokens } from "../../static/js/format.js";

test("a negative duration is shown as missing", () => {
  assert.equal(duration(-31_536_000_000), "–");
  assert.equal(duration(0), "0 ms");
});

test("token counts are abbreviated", () => {
  const sizes = [999, 9_500, 13_604, 16_000, 109_312, 999_499, 999_500, 1_500_000, 2_147_483_647, 1e15];
  assert.deepEqual(sizes.map(shortTokens), ["999", "9.5k", "13.6k", "16k", "109k", "999k", "1M", "1.5M", "2.1B", "1,000T"]);
});

test("times more than a month away are shown as dates", () => {
  const now = Date.UTC(2026, 2, 15, 12);
  assert.equal(relativeTime(now + 3_600_000, now), "in 1 h");
  assert.equal(relativeTime(now - 3_600_000, now), "1 h ago");
  assert.match(relativeTime(Date.UTC(2090, 5, 15, 12), now), /Jun 2090$/);
  assert.match(relativeTime(Date.UTC(1970, 5, 15, 12), now), /Jun 1970$/);
});
