// @ts-check
// Compute the bars, lines and markers of the timeline in pixels. Pure: the canvas and the SVG file share one layout.
import { clock, shortTokens } from "../../format.js";
import { clockOutliers } from "../clock-skew.js";
import { regularTicks, roundStep, timeTicks, tokenTicks, withoutOverlap } from "./ticks.js";

/** @typedef {import("../store.js").Check} Check */
/** @typedef {"turn" | "time" | "tokens"} Scale */
/** @typedef {"error" | "overflow" | "warning" | "reread" | "recall"} EventKind */
/**
 * `Gap` is idle time that is drawn short. `before` is the index of the check that ended it. A marker is one
 * compaction, or `count` neighbors of which it is the most severe. A lane event belongs to the check at `index`.
 * @typedef {{ check: Check, index: number, x: number, width: number, at: number }} Bar
 * @typedef {Bar & { number: number, middle: number, pill: number, text: string, label: string, isLabelLeft: boolean, count: number,
 *   range: [number, number] }} Marker
 * @typedef {{ index: number, kind: EventKind, span: string, text: string }} LaneEvent
 * @typedef {{ x: number, kind: EventKind, index: number, count: number, events: LaneEvent[] }} LaneMark
 * @typedef {{ before: number, ms: number }} Gap
 * @typedef {{ at: Float64Array, gaps: Gap[], top: number, fittedTop: number, skewed: number }} Positions
 * @typedef {{ left: number, top: number, width: number, height: number }} Plot
 * @typedef {{ from: number, to: number, whole: [number, number], perUnit: number, barWidth: number, isCrowded: boolean }} Axis
 * @typedef {{ bars: Bar[], markers: Marker[], lane: LaneMark[], laneY: number, lines: { name: string, y: number, tokens: number, isBeyond: boolean }[],
 *   ticksY: { y: number, tokens: number }[], ticksX: { x: number, label: string }[], gaps: { x: number, ms: number }[],
 *   y: (tokens: number) => number, from: number, to: number, whole: [number, number], plot: Plot, bottom: number }} Layout
 * @typedef {{ top: number, length: number }} Limits the tokens and the axis length that charts share
 * @typedef {{ width: number, height: number, scale: Scale, zoom: [number, number] | null, events?: LaneEvent[],
 *   limits?: Limits | null, hasGaps?: boolean, isWholeWindow?: boolean }} View
 */

export const MARGIN = { left: 62, right: 86, top: 26, bottom: 38 };
// Space below the bars for events, if there are any.
export const LANE_PX = 18;
// Lane events closer than this are drawn as one.
const LANE_CLUSTER_PX = 18;
// Compactions within this distance that don't fit next to each other are drawn as one marker.
const CLUSTER_PX = 72;
/** Kinds of lane events, most severe first. @type {EventKind[]} */
export const EVENT_KINDS = ["error", "overflow", "warning", "reread", "recall"];
// Idle time longer than this many median pauses is drawn short.
const GAP_MEDIANS = 8;
// If no prompt reaches this share of the window, the vertical axis ends above the largest prompt. At a tenth of the
// window, bars would be stubs of equal height.
const FIT_BELOW = 0.5;
const FIT_ROOM = 1.25;
// Bars narrower than this touch each other.
const MIN_SPACED_PX = 3;
const MAX_BAR_PX = 26;
// Distance between a marker and its label.
export const LABEL_GAP_PX = 5;
// Width of a character of a label, which is bold.
const LABEL_CHAR_PX = 6.6;

/**
 * Place the checks on the axis, independent of zoom and size.
 * @param {Check[]} checks
 * @param {Scale} scale
 * @param {boolean} shortenGaps
 * @returns {Positions}
 */
export function positions(checks, scale, shortenGaps) {
  let [largest, window] = [1, 1];
  for (const check of checks) [largest, window] = [Math.max(largest, check.before), Math.max(window, check.window)];
  const top = Math.max(largest, window) * 1.04;
  const fittedTop = largest < FIT_BELOW * window ? largest * FIT_ROOM : top;
  return { skewed: 0, ...placeChecks(checks, scale, shortenGaps), top, fittedTop };
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
  // A check with a wrong clock is drawn next to its neighbor, because one of them would squeeze all others together.
  const { isOutlier, count: skewed } = clockOutliers(times);
  for (let i = 0; i < times.length; i++) if (isOutlier(times[i] ?? NaN)) times[i] = NaN;
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
  return { at, gaps, skewed };
}

/**
 * @param {Check[]} checks
 * @param {Positions} positions
 * @param {View} view
 * @returns {Layout}
 */
export function layout(checks, { at, gaps, top: wholeTop, fittedTop }, view) {
  const events = view.events ?? [];
  const top = Math.max(view.isWholeWindow ? wholeTop : fittedTop, view.limits?.top ?? 0);
  const bottom = MARGIN.bottom + (events.length ? LANE_PX : 0);
  const plot = {
    left: MARGIN.left,
    top: MARGIN.top,
    width: Math.max(10, view.width - MARGIN.left - MARGIN.right),
    height: Math.max(10, view.height - MARGIN.top - bottom),
  };
  const axis = scaleAxis(at, plot, view);
  const { from, to, whole, perUnit } = axis;
  const y = (/** @type {number} */ tokens) => plot.top + plot.height * (1 - Math.min(1, Math.max(0, tokens / top)));
  const { bars, markers } = placeBars(checks, at, plot, axis);
  const xOfGap = (/** @type {Gap} */ { before }) => plot.left + (((at[before - 1] ?? 0) + (at[before] ?? 0)) / 2 - from) * perUnit;
  return {
    bars,
    markers: labelMarkers(clusterMarkers(markers), plot),
    lane: placeLane(events, at, plot, axis),
    laneY: plot.top + plot.height + LANE_PX / 2 + 1,
    lines: limitLines(checks, top, y),
    ticksY: ticksY(top, y),
    ticksX: ticksX(bars, plot, axis, view),
    gaps: gaps.map((gap) => ({ ms: gap.ms, x: xOfGap(gap) })).filter(({ x }) => x > plot.left && x < plot.left + plot.width),
    y,
    from,
    to,
    whole,
    plot,
    bottom: plot.top + plot.height + (events.length ? LANE_PX : 0),
  };
}

/** @param {Float64Array} at @param {Plot} plot @param {View} view @returns {Axis} */
function scaleAxis(at, plot, view) {
  const count = at.length;
  const first = at[0] ?? 0;
  const last = at[count - 1] ?? 1;
  // If all checks have the same position, use a width of one unit.
  const step = (count > 1 && (last - first) / (count - 1)) || 1;
  const length = Math.max(last - first + step, view.limits?.length ?? 0);
  /** @type {[number, number]} */ const whole = [first - step / 2, first - step / 2 + length];
  const [from, to] = view.zoom ?? whole;
  const shown = Math.max(1e-9, to - from);
  const perUnit = plot.width / shown;
  // Only turns are evenly spaced. On the other axes, the average distance gives the bar width.
  const pitch = view.scale === "turn" ? perUnit : (plot.width / Math.max(1, count)) * (length / shown);
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
    if (isMarked(check)) {
      const middle = bar.x + barWidth / 2;
      markers.push({ ...bar, number: check.is_compaction ? number : 0, middle, pill: 0, text: "", label: "", isLabelLeft: false, count: 1, range: [position, position] });
    }
  }
  return { bars, markers };
}

/** Return true for compactions and for those that failed, which have no number. @param {Check | undefined} check */
export function isMarked(check) {
  return Boolean(check?.is_compaction || check?.has_failed);
}

/**
 * Return true if a check represents a pixel column better than another: compactions first, then the larger.
 * @param {Check} check
 * @param {Check} other
 */
function outranks(check, other) {
  return isMarked(check) === isMarked(other) ? check.before > other.before : isMarked(check);
}

/**
 * Join markers that would overlap. Each marker shows its most severe compaction.
 * @param {Marker[]} markers
 */
function clusterMarkers(markers) {
  /** @type {Marker[][]} */ const clusters = [];
  for (const marker of markers) {
    const cluster = clusters.at(-1);
    const [first, last] = [cluster?.[0], cluster?.at(-1)];
    const fits = !first || !last || marker.middle - last.middle >= (pillWidth(markerText([last])) + pillWidth(markerText([marker]))) / 2 + 3;
    if (!cluster || !first || fits || marker.middle - first.middle > CLUSTER_PX) clusters.push([marker]);
    else cluster.push(marker);
  }
  const joined = clusters.map(joinMarkers);
  joined.forEach((marker, i) => {
    const previous = joined[i - 1];
    if (previous) marker.middle = Math.max(marker.middle, previous.middle + (previous.pill + marker.pill) / 2 + 3);
  });
  return joined;
}

/**
 * Add the results of compactions where there is room inside the plot: after the marker, else before it.
 * @param {Marker[]} markers
 * @param {Plot} plot
 */
function labelMarkers(markers, plot) {
  let start = plot.left;
  markers.forEach((marker, i) => {
    const next = markers[i + 1];
    const [left, right] = [marker.middle - marker.pill / 2, marker.middle + marker.pill / 2];
    const end = next ? next.middle - next.pill / 2 : plot.left + plot.width;
    const label = resultOf(marker.check);
    const width = label.length * LABEL_CHAR_PX + 2 * LABEL_GAP_PX;
    const fitsRight = end - right >= width;
    if (marker.count === 1 && label && (fitsRight || left - start >= width)) [marker.label, marker.isLabelLeft] = [label, !fitsRight];
    start = right + (marker.label && fitsRight ? width : 0);
  });
  return markers;
}

/** @param {Marker[]} markers neighbors @returns {Marker} */
function joinMarkers(markers) {
  const [first, last] = [/** @type {Marker} */ (markers[0]), /** @type {Marker} */ (markers.at(-1))];
  const worst = markers.reduce((most, marker) => (severity(marker.check) > severity(most.check) ? marker : most));
  const text = markerText(markers);
  const middle = (first.middle + last.middle) / 2;
  return { ...worst, middle, text, pill: pillWidth(text), count: markers.length, range: [first.at, last.at] };
}

/** Return the first and the last number of some markers. Failed compactions have none. @param {Marker[]} markers */
function markerText(markers) {
  const numbers = markers.map((marker) => marker.number).filter(Boolean);
  const [first, last] = [numbers[0], numbers.at(-1)];
  return first === undefined ? "!" : first === last ? String(first) : `${first}–${last}`;
}

/** @param {string} text */
function pillWidth(text) {
  return Math.max(18, 7 * text.length + 8);
}

/**
 * Place the events below their bars. Neighbors share a mark, which shows the most severe kind and how many of it there are.
 * @param {LaneEvent[]} events
 * @param {Float64Array} at
 * @param {Plot} plot
 * @param {Axis} axis
 */
function placeLane(events, at, plot, { from, to, perUnit }) {
  /** @type {LaneMark[]} */ const marks = [];
  for (const event of [...events].sort((a, b) => a.index - b.index)) {
    const position = at[event.index] ?? 0;
    if (position < from || position > to) continue;
    const x = plot.left + (position - from) * perUnit;
    const last = marks.at(-1);
    if (!last || x - last.x >= LANE_CLUSTER_PX) {
      marks.push({ x, kind: event.kind, index: event.index, count: 1, events: [event] });
      continue;
    }
    last.events.push(event);
    if (EVENT_KINDS.indexOf(event.kind) < EVENT_KINDS.indexOf(last.kind)) [last.kind, last.index] = [event.kind, event.index];
  }
  for (const mark of marks) mark.count = mark.events.filter((event) => event.kind === mark.kind).length;
  return marks;
}

/** @param {Check} check */
function severity(check) {
  return check.has_failed ? 2 : check.fallback ? 1 : 0;
}

/** Describe the result of a compaction, such as "22k → 10k". @param {Check} check */
export function resultOf(check) {
  if (check.has_failed) return "failed";
  if (!check.before && check.after === null) return "";
  return `${shortTokens(check.before)} → ${check.after === null ? "…" : shortTokens(check.after)}`;
}

/**
 * Lines for window, cap and trigger of the newest check. Those beyond the axis have only a label, at its end.
 * @param {Check[]} checks
 * @param {number} top
 * @param {(tokens: number) => number} y
 */
function limitLines(checks, top, y) {
  const newest = checks.findLast((check) => check.window);
  if (!newest) return [];
  const lines = [
    { name: "window", tokens: newest.window },
    { name: "cap", tokens: newest.cap_tokens },
    { name: "trigger", tokens: newest.trigger_tokens },
  ];
  return lines.filter((line) => line.tokens > 0).map((line) => ({ ...line, y: y(line.tokens), isBeyond: line.tokens > top }));
}

/** @param {number} top @param {(tokens: number) => number} y */
function ticksY(top, y) {
  const unit = roundStep(top / 4);
  const ticks = [];
  for (let tokens = 0; tokens < top; tokens += unit) ticks.push({ y: y(tokens), tokens });
  return ticks;
}

/**
 * Labels of the horizontal axis that don't overlap.
 * @param {Bar[]} bars
 * @param {Plot} plot
 * @param {Axis} axis
 * @param {View} view
 */
function ticksX(bars, plot, { from, to, perUnit }, view) {
  const x = (/** @type {number} */ at) => plot.left + (at - from) * perUnit;
  const middle = (/** @type {Bar} */ bar) => bar.x + bar.width / 2;
  if (view.scale === "tokens") return withoutOverlap(tokenTicks(from, to, plot.width).map((tick) => ({ x: x(tick.at), label: tick.label })));
  if (view.scale === "time" && !view.hasGaps) {
    return withoutOverlap(timeTicks(from, to, plot.width).map((tick) => ({ x: x(tick.at), label: tick.label })));
  }
  const labelOf = (/** @type {Bar} */ bar) =>
    view.scale === "time" && bar.check.started_at ? clock(Date.parse(bar.check.started_at)) : String(bar.check.turn ?? bar.index + 1);
  const ticks = bars.map((bar) => ({ x: middle(bar), label: labelOf(bar) }));
  return withoutOverlap(view.scale === "turn" ? regularTicks(ticks) : ticks);
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
