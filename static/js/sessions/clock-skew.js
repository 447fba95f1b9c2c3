// @ts-check
// Find times that cannot belong to the same session, because a clock is wrong. Pure.

// A silence longer than this splits the times into groups. The largest group is right.
const GAP_MS = 30 * 86_400_000;

/** @typedef {{ from: number, to: number, count: number, isOutlier: (time: number) => boolean }} Outliers */

/**
 * Find the times that are far from all others. NaN is an unknown time.
 * @param {Iterable<number>} times
 * @returns {Outliers}
 */
export function clockOutliers(times) {
  return outliersOf(Float64Array.from(times).filter(Number.isFinite).sort());
}

/** Find the outliers of times in ascending order. @param {Float64Array} sorted @returns {Outliers} */
export function outliersOf(sorted) {
  let [best, bestSize, start] = [0, 0, 0];
  for (let i = 1; i <= sorted.length; i++) {
    if (i < sorted.length && (sorted[i] ?? 0) - (sorted[i - 1] ?? 0) <= GAP_MS) continue;
    // Of two equal groups, the later one is right: a clock that was never set starts in the past.
    if (i - start >= bestSize) [best, bestSize] = [start, i - start];
    start = i;
  }
  const from = sorted[best] ?? 0;
  const to = sorted[best + bestSize - 1] ?? 0;
  return { from, to, count: sorted.length - bestSize, isOutlier: (time) => time < from || time > to };
}
