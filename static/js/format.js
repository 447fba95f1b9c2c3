// @ts-check
// How numbers and times read. Imports nothing; the same words as viewer/templatetags/ariadne.py.

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** By hand: the browser's own formatter takes a tenth of a second to load. @param {number | null | undefined} value */
export function tokens(value) {
  return value == null ? "–" : String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** 109312 → 109k. @param {number | null | undefined} value */
export function shortTokens(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size < 1000) return String(value);
  if (size < 10_000) return `${(value / 1000).toFixed(1).replace(/\.0$/, "")}k`;
  if (size < 1_000_000) return `${tokens(Math.round(value / 1000))}k`;
  return size < 1_000_000_000 ? `${(value / 1_000_000).toFixed(1)}M` : `${(value / 1_000_000_000).toFixed(1)}B`;
}

/** @param {number | null | undefined} share 0 to 1 */
export function percent(share) {
  return share == null ? "–" : `${(share * 100).toFixed(1).replace(/\.0$/, "")}%`;
}

/** An end before its start is no time. @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms == null || ms < 0) return "–";
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
  if (Math.abs(seconds) < 5) return "now";
  if (Math.abs(seconds) > 30 * 86_400) return day(new Date(at));
  return seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`;
}

/** In the reader's own zone, which is named by its distance from UTC. @param {number} at */
export function exact(at) {
  const date = new Date(at);
  const ahead = -date.getTimezoneOffset();
  const [hours, minutes] = [Math.floor(Math.abs(ahead) / 60), Math.abs(ahead) % 60];
  const zone = ahead ? `UTC${ahead < 0 ? "−" : "+"}${hours}${minutes ? `:${pad(minutes)}` : ""}` : "UTC";
  return `${day(date)}, ${precise(at)} ${zone}`;
}

/** @param {number} at */
export function precise(at) {
  return `${clock(at)}.${String(new Date(at).getMilliseconds()).padStart(3, "0")}`;
}

/** @param {Date} date */
function day(date) {
  return `${date.getDate()} ${MONTHS[date.getMonth()]} ${date.getFullYear()}`;
}

/** @param {number} at */
export function clock(at) {
  const date = new Date(at);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** @param {number} number @param {string} noun */
export function counted(number, noun) {
  return `${tokens(number)} ${noun}${number === 1 ? "" : "s"}`;
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
