// @ts-check
// Compute the bars, lines and markers of the timeline in pixels. Pure: the canvas and the SVG file share one layout.
import { shortTokens } from "../../format.js";

/** @typedef {import("../store.js").Check} Check */
/** @typedef {"turn" | "time" | "tokens"} Scale */
/**
 * `Gap` is idle time that is drawn short. `before` is the index of the check that ended it.
 * @typedef {{ check: Check, index: number, x: number, width: number, at: number }} Bar
 * @typedef {Bar & { number: number, middle: number, pill: number, label: string }} Marker
 * @typedef {{ before: number, ms: number }} Gap
 * @typedef {{ at: Float64Array, gaps: Gap[], top: number }} Positions
 * @typedef {{ left: number, top: number, width: number, height: number }} Plot
 * @typedef {{ from: number, to: number, whole: [number, number], perUnit: number, barWidth: number, isCrowded: boolean }} Axis
 * @typedef {{ bars: Bar[], markers: Marker[], lines: { name: string, y: number, tokens: number }[],
 *   ticksY: { y: number, tokens: number }[], ticksX: Bar[], gaps: { x: number, ms: number }[], y: (tokens: number) => number,
 *   from: number, to: number, whole: [number, number], plot: Plot }} Layout
 * @typedef {{ width: number, height: number, scale: Scale, zoom: [number, number] | null }} View
 */

const MARGIN = { left: 48, right: 86, top: 26, bottom: 20 };
// Idle time longer than this many median pauses is drawn short.
const GAP_MEDIANS = 8;
// Bars narrower than this touch each other.
const MIN_SPACED_PX = 3;
const MAX_BAR_PX = 26;
// Minimum distance to the next marker for a label.
const LABEL_PX = 112;

/**
 * Place the checks on the axis, independent of zoom and size.
 * @param {Check[]} checks
 * @param {Scale} scale
 * @param {boolean} shortenGaps
 * @returns {Positions}
 */
export function positions(checks, scale, shortenGaps) {
  let top = 1;
  for (const check of checks) top = Math.max(top, check.window, check.before);
  return { ...placeChecks(checks, scale, shortenGaps), top: top * 1.04 };
}

/** @param {Check[]} checks @param {Scale} scale @param {boolean} shortenGaps */
function placeChecks(checks, scale, shortenGaps) {
  if (scale === "time") return placeByTime(checks, shortenGaps);
  const at = new Float64Array(checks.length);
  // On the token axis, the position of a check is the sum of all earlier prompts.
  let sum = 0;
  for (let i = 0; i < checks.length; i++) {
    at[i] = scale === "turn" ? i : sum;
    sum += Math.max(1, checks[i]?.after ?? checks[i]?.before ?? 0);
  }
  return { at, gaps: [] };
}

/** @param {Check[]} checks @param {boolean} shortenGaps */
function placeByTime(checks, shortenGaps) {
  const times = checks.map((check) => (check.started_at ? Date.parse(check.started_at) : NaN));
  const firstTime = times.find((time) => !Number.isNaN(time)) ?? 0;
  for (let i = 0; i < times.length; i++) if (Number.isNaN(times[i])) times[i] = times[i - 1] ?? firstTime;
  const pauses = times.slice(1).map((time, i) => time - (times[i] ?? time));
  const median = [...pauses].sort((a, b) => a - b)[Math.floor(pauses.length / 2)] ?? 0;
  const at = new Float64Array(checks.length);
  /** @type {Gap[]} */ const gaps = [];
  let shift = 0;
  for (let i = 0; i < times.length; i++) {
    const pause = i ? (pauses[i - 1] ?? 0) : 0;
    if (shortenGaps && median > 0 && pause > GAP_MEDIANS * median) {
      shift += pause - 2 * median;
      gaps.push({ before: i, ms: pause });
    }
    at[i] = (times[i] ?? 0) - shift;
  }
  return { at, gaps };
}

/**
 * @param {Check[]} checks
 * @param {Positions} positions
 * @param {View} view
 * @returns {Layout}
 */
export function layout(checks, { at, gaps, top }, view) {
  const plot = {
    left: MARGIN.left,
    top: MARGIN.top,
    width: Math.max(10, view.width - MARGIN.left - MARGIN.right),
    height: Math.max(10, view.height - MARGIN.top - MARGIN.bottom),
  };
  const axis = scaleAxis(at, plot, view);
  const { from, to, whole, perUnit } = axis;
  const y = (/** @type {number} */ tokens) => plot.top + plot.height * (1 - Math.min(1, Math.max(0, tokens / top)));
  const { bars, markers } = placeBars(checks, at, plot, axis);
  const xOfGap = (/** @type {Gap} */ { before }) => plot.left + (((at[before - 1] ?? 0) + (at[before] ?? 0)) / 2 - from) * perUnit;
  return {
    bars,
    markers: spaceMarkers(markers, plot.left + plot.width + 60),
    lines: limitLines(checks, y),
    ticksY: ticksY(top, y),
    ticksX: ticksX(bars, plot),
    gaps: gaps.map((gap) => ({ ms: gap.ms, x: xOfGap(gap) })).filter(({ x }) => x > plot.left && x < plot.left + plot.width),
    y,
    from,
    to,
    whole,
    plot,
  };
}

/** @param {Float64Array} at @param {Plot} plot @param {View} view @returns {Axis} */
function scaleAxis(at, plot, view) {
  const count = at.length;
  const first = at[0] ?? 0;
  const last = at[count - 1] ?? 1;
  // If all checks have the same position, use a width of one unit.
  const step = (count > 1 && (last - first) / (count - 1)) || 1;
  /** @type {[number, number]} */ const whole = [first - step / 2, last + step / 2];
  const [from, to] = view.zoom ?? whole;
  const length = Math.max(1e-9, to - from);
  const perUnit = plot.width / length;
  // Only turns are evenly spaced. On the other axes, the average distance gives the bar width.
  const pitch = view.scale === "turn" ? perUnit : (plot.width / Math.max(1, count)) * ((whole[1] - whole[0]) / length);
  const barWidth = pitch < MIN_SPACED_PX ? Math.max(1, pitch) : Math.min(MAX_BAR_PX, pitch * 0.78);
  return { from, to, whole, perUnit, barWidth, isCrowded: pitch < 1 };
}

/** @param {Check[]} checks @param {Float64Array} at @param {Plot} plot @param {Axis} axis */
function placeBars(checks, at, plot, { from, to, perUnit, barWidth, isCrowded }) {
  /** @type {Bar[]} */ const bars = [];
  /** @type {Marker[]} */ const markers = [];
  let number = 0;
  for (let i = 0; i < checks.length; i++) {
    const check = /** @type {Check} */ (checks[i]);
    if (check.is_compaction) number++;
    const position = at[i] ?? 0;
    if (position < from || position > to) continue;
    const x = plot.left + (position - from) * perUnit - barWidth / 2;
    const bar = { check, index: i, x: isCrowded ? Math.floor(x) : x, width: barWidth, at: position };
    const last = bars.at(-1);
    // A crowded timeline has one bar per pixel column.
    if (!isCrowded || last?.x !== bar.x) bars.push(bar);
    else if (outranks(check, last.check)) bars[bars.length - 1] = bar;
    if (check.is_compaction) {
      const pill = Math.max(18, 7 * String(number).length + 8);
      markers.push({ ...bar, number, middle: bar.x + barWidth / 2, pill, label: "" });
    }
  }
  return { bars, markers };
}

/**
 * Return true if a check represents a pixel column better than another: compactions first, then the larger.
 * @param {Check} check
 * @param {Check} other
 */
function outranks(check, other) {
  return check.is_compaction === other.is_compaction ? check.before > other.before : check.is_compaction;
}

/**
 * Drop markers that overlap, keep failures and fallbacks, and add labels where there is room.
 * @param {Marker[]} markers
 * @param {number} end
 */
function spaceMarkers(markers, end) {
  /** @type {Marker[]} */ const kept = [];
  for (const marker of markers) {
    const last = kept.at(-1);
    if (!last || marker.middle - last.middle >= (marker.pill + last.pill) / 2 + 3) kept.push(marker);
    else if (severity(marker.check) > severity(last.check)) kept[kept.length - 1] = marker;
  }
  kept.forEach((marker, i) => {
    if ((kept[i + 1]?.middle ?? end) - marker.middle > LABEL_PX) marker.label = resultOf(marker.check);
  });
  return kept;
}

/** @param {Check} check */
function severity(check) {
  return check.has_failed ? 2 : check.fallback ? 1 : 0;
}

/** Describe the result of a compaction, such as "22k → 10k". @param {Check} check */
export function resultOf(check) {
  if (check.has_failed) return "failed";
  return `${shortTokens(check.before)} → ${check.after === null ? "…" : shortTokens(check.after)}`;
}

/** Lines for window, cap and trigger of the newest check. @param {Check[]} checks @param {(tokens: number) => number} y */
function limitLines(checks, y) {
  const newest = checks.findLast((check) => check.window);
  if (!newest) return [];
  const lines = [
    { name: "window", tokens: newest.window },
    { name: "cap", tokens: newest.cap_tokens },
    { name: "trigger", tokens: newest.trigger_tokens },
  ];
  return lines.filter((line) => line.tokens > 0).map((line) => ({ ...line, y: y(line.tokens) }));
}

/** @param {number} top @param {(tokens: number) => number} y */
function ticksY(top, y) {
  const rough = top / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? power * 10;
  const ticks = [];
  for (let tokens = 0; tokens < top; tokens += unit) ticks.push({ y: y(tokens), tokens });
  return ticks;
}

/** @param {Bar[]} bars @param {{ width: number }} plot */
function ticksX(bars, plot) {
  const every = Math.max(1, Math.ceil(bars.length / Math.max(2, Math.floor(plot.width / 90))));
  return bars.filter((_, i) => i % every === 0);
}

/**
 * Return the times from the first visible check to the one after the last.
 * @param {Layout} layout
 * @param {Check[]} checks
 * @returns {[number, number] | null}
 */
export function timeRangeOf({ bars }, checks) {
  const [first, last] = [bars[0], bars.at(-1)];
  if (!first?.check.started_at || !last?.check.started_at) return null;
  const from = Date.parse(first.check.started_at);
  const to = Date.parse(checks[last.index + 1]?.started_at ?? last.check.ended_at ?? last.check.started_at);
  return [from, Math.max(from + 1, to)];
}
