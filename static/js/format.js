// @ts-check
// Format numbers and times. Imports nothing. viewer/numbers.py formats the same way on the server.

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** Names of the types of search results. @type {Record<string, string>} */
export const RESULT_LABELS = { session: "Session", message: "Message", summary: "Summary", span: "Span" };

const ROUNDS_UP = 0.9995; // 999,500 is 1M, not 1,000k
/** @type {[number, string][]} */
const UNITS = [
  [1e12, "T"],
  [1e9, "B"],
  [1e6, "M"],
  [1e3, "k"],
];

/** Group digits: 109312 → 109,312. Intl.NumberFormat takes 100 ms to load. @param {number | null | undefined} value */
export function tokens(value) {
  return value == null ? "–" : String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Abbreviate to at most three digits: 13604 → 13.6k, 109312 → 109k. @param {number | null | undefined} value */
export function shortTokens(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size < 1000) return String(value);
  const [unit, name] = /** @type {[number, string]} */ (UNITS.find(([limit]) => size >= ROUNDS_UP * limit));
  const number = value / unit;
  return `${Math.abs(number) < 100 ? number.toFixed(1).replace(/\.0$/, "") : tokens(Math.round(number))}${name}`;
}

/** @param {number | null | undefined} share 0 to 1 */
export function percent(share) {
  return share == null ? "–" : `${(share * 100).toFixed(1).replace(/\.0$/, "")}%`;
}

/**
 * Format a duration. A negative one, from an end before its start, is shown as missing.
 * @param {number | null | undefined} ms
 */
export function duration(ms) {
  if (ms == null || ms < 0) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(2)} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60) % 60;
  const hours = Math.floor(seconds / 3600);
  return hours ? `${hours} h ${pad(minutes)} m` : `${minutes} m ${pad(seconds % 60)} s`;
}

/**
 * Format a time relative to now, such as "3 min ago". Beyond 30 days, return the date.
 * @param {number} at
 * @param {number} now
 */
export function relativeTime(at, now) {
  const seconds = Math.round((now - at) / 1000);
  if (Math.abs(seconds) < 5) return "now";
  if (Math.abs(seconds) > 30 * 86_400) return formatDate(new Date(at));
  return seconds < 0 ? `in ${coarseDuration(-seconds)}` : `${coarseDuration(seconds)} ago`;
}

/** Format a time in the local time zone with its UTC offset: "16 Nov 2026, 21:20:36.975 UTC+1". @param {number} at */
export function exactTime(at) {
  const date = new Date(at);
  const offset = -date.getTimezoneOffset();
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
  const zone = offset ? `UTC${offset < 0 ? "−" : "+"}${hours}${minutes ? `:${pad(minutes)}` : ""}` : "UTC";
  return `${formatDate(date)}, ${clockMs(at)} ${zone}`;
}

/** Format the local time of day: "21:20:36". @param {number} at */
export function clock(at) {
  const date = new Date(at);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** Format the local time of day with milliseconds: "21:20:36.975". @param {number} at */
export function clockMs(at) {
  return `${clock(at)}.${String(new Date(at).getMilliseconds()).padStart(3, "0")}`;
}

/** Format the local day: "16 Nov". @param {number} at */
export function dayMonth(at) {
  const date = new Date(at);
  return `${date.getDate()} ${MONTHS[date.getMonth()]}`;
}

/** Format a count with its noun: "1 event", "2 events". @param {number} count @param {string} noun */
export function pluralize(count, noun) {
  return `${tokens(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** @param {Date} date */
function formatDate(date) {
  return `${date.getDate()} ${MONTHS[date.getMonth()]} ${date.getFullYear()}`;
}

/** Format a duration in its largest unit: "9 min". @param {number} seconds */
export function coarseDuration(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** @param {number} number */
function pad(number) {
  return String(number).padStart(2, "0");
}
