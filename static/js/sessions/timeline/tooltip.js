// @ts-check
// Content of the tooltip of a bar.
import { h } from "../../dom.js";
import { exactTime, percent, tokens } from "../../format.js";
import { EVENTS, PARTS } from "./parts.js";

const MAX_EVENTS = 6;

/** @param {import("../store.js").Check} check */
export function describeCheck(check) {
  const kind = check.is_recovery ? "Overflow recovery" : check.is_compaction ? "Compaction" : check.has_failed ? "Failed compaction" : check.is_call ? "Model call" : "Check";
  const parts = PARTS.map(([name, label], i) => {
    const size = check.parts[i] ?? 0;
    if (!size) return null;
    const share = h("span", { class: "num faint" }, percent(size / Math.max(1, check.before)));
    const swatch = h("span", { class: "swatch", "data-part": name });
    return h("li", {}, swatch, h("span", {}, label), h("span", { class: "num" }, tokens(size)), share);
  });
  return [
    h("strong", {}, kind, check.turn === null ? "" : ` at turn ${check.turn}`),
    h("p", {}, check.sentence),
    ...(check.is_call ? [] : [h("ul", {}, ...parts)]),
    ...(check.after_is_derived ? [h("p", { class: "faint" }, "Parts after compaction are estimated.")] : []),
    h("p", { class: "faint" }, check.started_at ? exactTime(Date.parse(check.started_at)) : ""),
  ];
}

/** Describe the events of one mark in the lane. @param {import("./layout.js").LaneEvent[]} events */
export function describeEvents(events) {
  const rows = events.slice(0, MAX_EVENTS).map(({ kind, text }) => h("p", {}, h("strong", {}, EVENTS[kind].label), ` ${text}`));
  const rest = events.length - rows.length;
  return rest > 0 ? [...rows, h("p", { class: "faint" }, `${rest} more`)] : rows;
}
