// @ts-check
// How numbers and times read. Imports nothing; the same words as viewer/templatetags/ariadne.py.

const whole = new Intl.NumberFormat("en-GB");

/** @param {number | null | undefined} value */
export function tokens(value) {
  return value == null ? "–" : whole.format(value);
}

/** 109312 → 109k. @param {number | null | undefined} value */
export function shortTokens(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size < 1000) return String(value);
  if (size < 10_000) return `${(value / 1000).toFixed(1).replace(/\.0$/, "")}k`;
  if (size < 1_000_000) return `${whole.format(Math.round(value / 1000))}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

/** @param {number | null | undefined} share 0 to 1 */
export function percent(share) {
  return share == null ? "–" : `${(share * 100).toFixed(1).replace(/\.0$/, "")}%`;
}

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms == null) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(2)} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60) % 60;
  const hours = Math.floor(seconds / 3600);
  return hours ? `${hours} h ${pad(minutes)} m` : `${minutes} m ${pad(seconds % 60)} s`;
}

/** Like 5 s, 3 min, 2 h, 4 d ago; a date beyond a month. @param {number} at @param {number} now */
export function relative(at, now) {
  const seconds = Math.round((now - at) / 1000);
  if (seconds < 0) return seconds > -5 ? "now" : `in ${span(-seconds)}`;
  if (seconds < 5) return "now";
  if (seconds > 30 * 86_400) return new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  return `${span(seconds)} ago`;
}

/** The reader's own zone, named. @param {number} at */
export function exact(at) {
  return new Date(at).toLocaleString("en-GB", {
    year: "numeric",
    month: "short",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    fractionalSecondDigits: 3,
    timeZoneName: "short",
  });
}

/** @param {number} at */
export function clock(at) {
  const date = new Date(at);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** @param {number} number @param {string} noun */
export function counted(number, noun) {
  return `${whole.format(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** @param {number} seconds */
function span(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** @param {number} number */
function pad(number) {
  return String(number).padStart(2, "0");
}
