// @ts-check
// Checks to bars, lines and markers in pixels. Pure: one layout, painted on a canvas and written as SVG alike.
import { shortTokens } from "../../format.js";

/** @typedef {import("../store.js").Check} Check */
/** @typedef {"turn" | "time" | "tokens"} Scale */
/**
 * @typedef {{ check: Check, index: number, x: number, width: number, at: number }} Bar
 * @typedef {Bar & { number: number, middle: number, pill: number, words: string }} Marker
 * @typedef {{ before: number, ms: number }} Gap an idle time drawn short, and the index of the check that ended it
 * @typedef {{ at: Float64Array, gaps: Gap[], top: number }} Positions
 * @typedef {{ bars: Bar[], markers: Marker[], lines: { name: string, y: number, tokens: number }[],
 *   ticksY: { y: number, tokens: number }[], ticksX: Bar[], gaps: { x: number, ms: number }[], y: (tokens: number) => number,
 *   from: number, to: number, whole: [number, number], plot: { left: number, top: number, width: number, height: number } }} Layout
 */

const MARGIN = { left: 48, right: 86, top: 26, bottom: 20 };
// Idle longer than this many times the median pause is drawn as a gap of one median.
const GAP_TIMES = 8;
// Bars closer than this have no room for a gap between them.
const CLOSE_PX = 3;
// Less room than this to the next marker and the words would run into it.
const WORDS_PX = 112;

/**
 * Where each check stands on the axis, before zoom; it changes only with the checks and the axis.
 * @param {Check[]} checks
 * @param {Scale} scale
 * @param {boolean} compress
 * @returns {Positions}
 */
export function positions(checks, scale, compress) {
  let top = 1;
  for (const check of checks) top = Math.max(top, check.window, check.before);
  return { ...places(checks, scale, compress), top: top * 1.04 };
}

/** @param {Check[]} checks @param {Scale} scale @param {boolean} compress */
function places(checks, scale, compress) {
  const at = new Float64Array(checks.length);
  /** @type {Gap[]} */ const gaps = [];
  if (scale === "turn") {
    for (let i = 0; i < checks.length; i++) at[i] = i;
    return { at, gaps };
  }
  if (scale === "tokens") {
    // What went through the model so far: the sum of the prompts.
    let sum = 0;
    for (let i = 0; i < checks.length; i++) {
      at[i] = sum;
      sum += Math.max(1, checks[i]?.after ?? checks[i]?.before ?? 0);
    }
    return { at, gaps };
  }
  const times = checks.map((check) => (check.started_at ? Date.parse(check.started_at) : NaN));
  for (let i = 0; i < times.length; i++) if (Number.isNaN(times[i])) times[i] = times[i - 1] ?? times.find((t) => !Number.isNaN(t)) ?? 0;
  const pauses = times.slice(1).map((time, i) => time - (times[i] ?? time));
  const median = [...pauses].sort((a, b) => a - b)[Math.floor(pauses.length / 2)] ?? 0;
  let shift = 0;
  for (let i = 0; i < times.length; i++) {
    const pause = i ? (pauses[i - 1] ?? 0) : 0;
    if (compress && median > 0 && pause > GAP_TIMES * median) {
      shift += pause - 2 * median;
      gaps.push({ before: i, ms: pause });
    }
    at[i] = (times[i] ?? 0) - shift;
  }
  return { at, gaps };
}

/**
 * @param {Check[]} checks
 * @param {Positions} placed
 * @param {{ width: number, height: number, scale: Scale, zoom: [number, number] | null }} view
 * @returns {Layout}
 */
export function layout(checks, placed, view) {
  const plot = {
    left: MARGIN.left,
    top: MARGIN.top,
    width: Math.max(10, view.width - MARGIN.left - MARGIN.right),
    height: Math.max(10, view.height - MARGIN.top - MARGIN.bottom),
  };
  const { at, top } = placed;
  const first = at[0] ?? 0;
  const final = at[checks.length - 1] ?? 1;
  // Checks that are all at one place still have a place of some width.
  const step = (checks.length > 1 && (final - first) / (checks.length - 1)) || 1;
  /** @type {[number, number]} */ const whole = [first - step / 2, final + step / 2];
  const [from, to] = view.zoom ?? whole;
  const perUnit = plot.width / Math.max(1e-9, to - from);
  const y = (/** @type {number} */ tokens) => plot.top + plot.height * (1 - Math.min(1, Math.max(0, tokens / top)));
  // On a time axis bars stand where they happened, so their width comes from how many there are.
  const pitch = view.scale === "turn" ? perUnit : (plot.width / Math.max(1, checks.length)) * ((whole[1] - whole[0]) / Math.max(1e-9, to - from));
  const width = pitch < CLOSE_PX ? Math.max(1, pitch) : Math.min(26, pitch * 0.78);
  /** @type {Bar[]} */ const bars = [];
  /** @type {Marker[]} */ const markers = [];
  // Of bars in one column of pixels one is drawn.
  const isCrowded = pitch < 1;
  let number = 0;
  for (let i = 0; i < checks.length; i++) {
    const check = /** @type {Check} */ (checks[i]);
    if (check.is_compaction) number++;
    const place = at[i] ?? 0;
    if (place < from || place > to) continue;
    const x = plot.left + (place - from) * perUnit - width / 2;
    const bar = { check, index: i, x: isCrowded ? Math.floor(x) : x, width, at: place };
    const last = bars.at(-1);
    if (!isCrowded || last?.x !== bar.x) bars.push(bar);
    else if (outranks(check, last.check)) bars[bars.length - 1] = bar;
    if (check.is_compaction) markers.push({ ...bar, number, middle: bar.x + width / 2, pill: Math.max(18, 7 * String(number).length + 8), words: "" });
  }
  const gaps = placed.gaps
    .map(({ before, ms }) => ({ ms, x: plot.left + (((at[before - 1] ?? 0) + (at[before] ?? 0)) / 2 - from) * perUnit }))
    .filter(({ x }) => x > plot.left && x < plot.left + plot.width);
  const newest = checks.findLast((check) => check.window);
  const lines = newest
    ? [
        { name: "window", tokens: newest.window },
        { name: "cap", tokens: newest.cap_tokens },
        { name: "trigger", tokens: newest.trigger_tokens },
      ]
        .filter((line) => line.tokens > 0)
        .map((line) => ({ ...line, y: y(line.tokens) }))
    : [];
  return { bars, markers: apart(markers, plot.left + plot.width + 60), lines, ticksY: ticksY(top, y), ticksX: ticksX(bars, plot), gaps, y, from, to, whole, plot };
}

/** Which of two checks stands for both: one that compacted, else the larger. @param {Check} one @param {Check} other */
function outranks(one, other) {
  return one.is_compaction === other.is_compaction ? one.before > other.before : one.is_compaction;
}

/** Those that do not lie on the one before, with words where there is room; one that failed or fell back is never the one left out. @param {Marker[]} markers @param {number} end */
function apart(markers, end) {
  /** @type {Marker[]} */ const kept = [];
  for (const marker of markers) {
    const last = kept.at(-1);
    if (!last || marker.middle - last.middle >= (marker.pill + last.pill) / 2 + 3) kept.push(marker);
    else if (trouble(marker.check) > trouble(last.check)) kept[kept.length - 1] = marker;
  }
  kept.forEach((marker, i) => {
    if ((kept[i + 1]?.middle ?? end) - marker.middle > WORDS_PX) marker.words = resultOf(marker.check);
  });
  return kept;
}

/** @param {Check} check */
function trouble(check) {
  return check.has_failed ? 2 : check.fallback ? 1 : 0;
}

/** What a compaction did to the size of the prompt. @param {Check} check */
export function resultOf(check) {
  return check.has_failed ? "failed" : `${shortTokens(check.before)} → ${check.after === null ? "…" : shortTokens(check.after)}`;
}

/** @param {number} top @param {(tokens: number) => number} y */
function ticksY(top, y) {
  const rough = top / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 2.5, 5, 10].map((times) => times * power).find((size) => size >= rough) ?? power * 10;
  const ticks = [];
  for (let tokens = 0; tokens < top; tokens += unit) ticks.push({ y: y(tokens), tokens });
  return ticks;
}

/** @param {Bar[]} bars @param {{ width: number }} plot */
function ticksX(bars, plot) {
  const every = Math.max(1, Math.ceil(bars.length / Math.max(2, Math.floor(plot.width / 90))));
  return bars.filter((_, i) => i % every === 0);
}
