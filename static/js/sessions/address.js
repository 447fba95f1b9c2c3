// @ts-check
// The part of the address after "#": the selected span and the view of the session page. Pure.

/** @typedef {import("./store.js").View} View */

const AXES = ["turn", "time", "tokens"];

/** @param {string} hash @returns {View & { span: string }} */
export function parseAddress(hash) {
  const values = new URLSearchParams(hash.slice(1));
  const axis = values.get("axis") ?? "";
  const zoom = (values.get("zoom") ?? "").split("~").map(Number);
  return {
    span: values.get("span") ?? "",
    axis: /** @type {View["axis"]} */ (AXES.includes(axis) ? axis : "turn"),
    gaps: values.get("gaps") === "short",
    wholeWindow: values.get("height") === "window",
    zoom: zoom.length === 2 && zoom.every(Number.isFinite) ? [zoom[0] ?? 0, zoom[1] ?? 0] : null,
    kind: values.get("kind") ?? "",
    find: values.get("find") ?? "",
    only: values.get("only") === "matches",
    layout: values.get("layout") === "flame" ? "flame" : "tree",
    tab: values.get("tab") ?? "",
  };
}

/** @param {View & { span: string }} state */
export function formatAddress({ span, axis, gaps, wholeWindow, zoom, kind, find, only, layout, tab }) {
  /** @type {[string, string][]} */
  const values = [
    ["span", span],
    ["axis", axis === "turn" ? "" : axis],
    ["gaps", gaps ? "short" : ""],
    ["height", wholeWindow ? "window" : ""],
    ["zoom", zoom ? zoom.map(shortNumber).join("~") : ""],
    ["kind", kind],
    ["find", find],
    ["only", only ? "matches" : ""],
    ["layout", layout === "flame" ? layout : ""],
    ["tab", tab],
  ];
  const parts = values.filter(([, value]) => value).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return parts.length ? `#${parts.join("&")}` : "";
}

/** @param {number} value */
function shortNumber(value) {
  return String(Number(value.toFixed(3)));
}
