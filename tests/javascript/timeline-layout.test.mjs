// Layout of the timeline.
import assert from "node:assert/strict";
import { test } from "node:test";
import { layout, positions } from "../../static/js/sessions/timeline/layout.js";

function checks(count, compacts = () => false) {
  return Array.from({ length: count }, (_, i) => ({
    started_at: new Date(1_700_000_000_000 + i * 1000).toISOString(),
    turn: i + 1,
    before: 1000 + (i % 50),
    after: compacts(i) ? 400 : null,
    window: 2000,
    trigger_tokens: 1700,
    cap_tokens: 1900,
    is_compaction: compacts(i),
  }));
}

const view = (more = {}) => ({ width: 1000, height: 200, scale: "turn", zoom: null, ...more });

test("every check is a bar inside the plot while there is room", () => {
  const all = checks(80);
  const result = layout(all, positions(all, "turn", false), view());
  assert.equal(result.bars.length, 80);
  for (const bar of result.bars) assert.ok(bar.x >= result.plot.left - 1 && bar.x + bar.width <= result.plot.left + result.plot.width + 1);
});

test("10,000 checks have at most one bar per pixel and keep every compaction", () => {
  const all = checks(10_000, (i) => i === 5_003);
  const result = layout(all, positions(all, "turn", false), view());
  assert.ok(result.bars.length <= result.plot.width + 1);
  assert.ok(result.bars.some((bar) => bar.index === 5_003));
  assert.deepEqual(result.markers.map((marker) => marker.number), [1]);
});

test("overlapping markers are joined into ranges that contain every compaction", () => {
  const all = checks(2_000, () => true);
  const result = layout(all, positions(all, "turn", false), view());
  result.markers.reduce((previous, marker) => (assert.ok(marker.middle - previous.middle >= (previous.pill + marker.pill) / 2), marker));
  assert.equal(result.markers.reduce((sum, marker) => sum + marker.count, 0), 2_000);
  assert.match(result.markers[0].text, /^1–\d+$/);
  const zoomed = layout(all, positions(all, "turn", false), view({ zoom: [99.5, 109.5] }));
  assert.deepEqual(zoomed.markers.map((marker) => marker.number), [101, 102, 103, 104, 105, 106, 107, 108, 109, 110]);
});

test("a failed compaction wins over its neighbors", () => {
  const all = checks(2_000, () => true);
  all[1_203].has_failed = true;
  all[1_402].fallback = "pruning-only";
  const { markers } = layout(all, positions(all, "turn", false), view());
  assert.ok(markers.some(({ number }) => number === 1_204));
  assert.ok(markers.some(({ number }) => number === 1_403));
});

test("shortened gaps keep the order of checks", () => {
  const all = checks(20);
  for (const check of all.slice(10)) check.started_at = new Date(Date.parse(check.started_at) + 3_600_000).toISOString();
  const { at, gaps } = positions(all, "time", true);
  assert.deepEqual(gaps, [{ before: 10, ms: 3_601_000 }]);
  assert.ok(at[10] - at[9] < 10_000);
  assert.ok(at[10] > at[9]);
});

test("checks at the same time are centered and have a width", () => {
  const all = checks(30).map((check) => ({ ...check, started_at: "2026-03-02T09:00:00Z" }));
  const result = layout(all, positions(all, "time", false), view({ scale: "time" }));
  assert.ok(result.to > result.from);
  for (const bar of result.bars) assert.ok(Math.abs(bar.x + bar.width / 2 - (result.plot.left + result.plot.width / 2)) < 1 && bar.width > 3);
});

test("labels of a crowded time axis don't overlap", () => {
  const all = checks(40);
  // Half of the checks happen within a second, the others over an hour.
  all.slice(20).forEach((check, i) => (check.started_at = new Date(1_700_000_000_000 + i * 180_000).toISOString()));
  all.sort((a, b) => (a.started_at < b.started_at ? -1 : 1));
  for (const shorten of [false, true]) {
    const place = positions(all, "time", shorten);
    const { ticksX } = layout(all, place, view({ scale: "time", hasGaps: place.gaps.length > 0 }));
    assert.ok(ticksX.length >= 2);
    ticksX.reduce((a, b) => (assert.ok(b.x - a.x > (a.label.length + b.label.length) * 3), b));
  }
});

test("a check with a wrong clock doesn't stretch the time axis", () => {
  const all = checks(20);
  all[3].started_at = "1989-03-28T00:00:00Z";
  const { at, skewed } = positions(all, "time", false);
  assert.equal(skewed, 1);
  assert.ok(at[19] - at[0] < 60_000);
});

test("charts with shared limits have the same scales", () => {
  const [small, large] = [checks(10), checks(40).map((check) => ({ ...check, window: 4000 }))];
  const limits = { top: 4160, length: 40 };
  const [a, b] = [small, large].map((all) => layout(all, positions(all, "turn", false), view({ limits })));
  assert.equal(a.y(1000), b.y(1000));
  assert.equal(a.bars[5].x, b.bars[5].x);
});

test("neighboring events share a mark that shows the most severe", () => {
  const all = checks(300);
  const events = [
    { index: 100, kind: "recall", span: "a", text: "" },
    { index: 101, kind: "error", span: "b", text: "" },
    { index: 290, kind: "warning", span: "c", text: "" },
  ];
  const { lane } = layout(all, positions(all, "turn", false), view({ events }));
  assert.deepEqual(lane.map(({ kind, count, events: own }) => [kind, count, own.length]), [["error", 1, 2], ["warning", 1, 1]]);
});

test("the result of a compaction stays inside the plot, before its marker if there is no room after it", () => {
  const all = checks(40, (i) => i === 10 || i === 39);
  for (const width of [390, 1000]) {
    const { markers, plot } = layout(all, positions(all, "turn", false), view({ width }));
    const [first, last] = markers;
    assert.equal(first.isLabelLeft, false);
    assert.deepEqual([last.label, last.isLabelLeft], ["1k → 400", true]);
    assert.ok(last.middle - last.label.length * 6 > first.middle);
    assert.ok(last.middle + last.pill / 2 <= plot.left + plot.width + last.pill / 2);
  }
});

test("a failed compaction is marked without a number", () => {
  const all = checks(40, (i) => i === 3 || i === 30);
  all[20].has_failed = true;
  const { markers } = layout(all, positions(all, "turn", false), view());
  assert.deepEqual(markers.map((marker) => marker.text), ["1", "!", "2"]);
});
