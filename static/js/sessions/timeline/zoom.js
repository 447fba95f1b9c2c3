// @ts-check
// Ranges of the timeline's axis for zooming and panning. Pure.

/** @typedef {[number, number]} Range */

/**
 * Scale a range around an anchor.
 * @param {Range} range
 * @param {number} factor zooms in below 1
 * @param {number} anchor share of the range that stays in place
 * @param {number} minLength
 * @returns {Range}
 */
export function scaleRange([from, to], factor, anchor, minLength) {
  const length = Math.max(minLength, (to - from) * factor);
  const start = from + (to - from - length) * Math.max(0, Math.min(1, anchor));
  return [start, start + length];
}

/** Move a range by a share of its length. @param {Range} range @param {number} share @returns {Range} */
export function shiftRange([from, to], share) {
  const distance = (to - from) * share;
  return [from + distance, to + distance];
}

/**
 * Fit a range into the whole axis. Returns null if it covers the axis.
 * @param {Range} range
 * @param {Range} whole
 * @returns {Range | null}
 */
export function clampRange(range, whole) {
  const wholeLength = whole[1] - whole[0];
  const length = Math.min(range[1] - range[0], wholeLength);
  const from = Math.max(whole[0], Math.min(whole[1] - length, range[0]));
  return length >= wholeLength ? null : [from, from + length];
}
