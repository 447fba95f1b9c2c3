// @ts-check
// Labels of the horizontal axis. Pure.
import { clock, clockMs, dayMonth, shortTokens } from "../../format.js";

const CHAR_PX = 6.2;
const SPACE_PX = 14;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Distances between the labels of a time axis. */
const TIME_STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((count) => count * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 7, 14, 30].map((count) => count * DAY),
];

/**
 * Return round times between two times, in the local time zone.
 * @param {number} from
 * @param {number} to
 * @param {number} width in pixels
 */
export function timeTicks(from, to, width) {
  const rough = ((to - from) / Math.max(1, width)) * 90;
  const step = TIME_STEPS.find((size) => size >= rough) ?? Math.ceil(rough / DAY) * DAY;
  // Round in local time, so that labels are whole hours in every time zone.
  const offset = new Date(from).getTimezoneOffset() * MINUTE;
  const ticks = [];
  for (let at = Math.ceil((from - offset) / step) * step + offset; at <= to; at += step) ticks.push({ at, label: timeLabel(at, step) });
  return ticks;
}

/** @param {number} at @param {number} step */
function timeLabel(at, step) {
  if (step >= DAY) return dayMonth(at);
  if (step < SECOND) return clockMs(at);
  return step >= MINUTE ? clock(at).slice(0, 5) : clock(at);
}

/**
 * Return round numbers of tokens.
 * @param {number} from
 * @param {number} to
 * @param {number} width in pixels
 */
export function tokenTicks(from, to, width) {
  const step = roundStep(((to - from) / Math.max(1, width)) * 80);
  const ticks = [];
  for (let at = Math.max(0, Math.ceil(from / step) * step); at <= to; at += step) ticks.push({ at, label: shortTokens(at) });
  return ticks;
}

/** Round up to 1, 2, 2.5 or 5 times a power of ten. @param {number} rough */
export function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1e-9, rough)));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? power * 10;
}

/** Keep every n-th number, so that labels are round and evenly spaced. @param {{ x: number, label: string }[]} ticks numbers in order */
export function regularTicks(ticks) {
  const [first, last] = [ticks[0], ticks.at(-1)];
  if (!first || !last || ticks.length < 3) return ticks;
  const perTick = (last.x - first.x) / (ticks.length - 1);
  const widest = Math.max(first.label.length, last.label.length) * CHAR_PX + SPACE_PX;
  const step = Math.max(1, Math.ceil(roundStep(widest / Math.max(1e-6, perTick))));
  const round = ticks.filter(({ label }) => Number(label) % step === 0);
  return round.length > 1 ? round : ticks;
}

/** Leave out labels that would touch the one before. @param {{ x: number, label: string }[]} ticks in order */
export function withoutOverlap(ticks) {
  let end = -Infinity;
  return ticks.filter(({ x, label }) => {
    const half = (label.length * CHAR_PX) / 2;
    if (x - half < end + SPACE_PX) return false;
    end = x + half;
    return true;
  });
}
