// @ts-check
// What is said of one check when one points at its bar.
import { h } from "../../dom.js";
import { exact, percent, tokens } from "../../format.js";
import { PARTS } from "./parts.js";

/** @param {import("../store.js").Check} check */
export function toldOf(check) {
  const kind = check.is_compaction ? "Compaction" : check.is_recovery ? "Overflow" : check.is_call ? "Model call" : "Check";
  const parts = PARTS.map(([name, label], i) => {
    const size = check.parts[i] ?? 0;
    if (!size) return null;
    const share = h("span", { class: "num faint" }, percent(size / Math.max(1, check.before)));
    return h("li", {}, h("span", { class: "swatch", "data-part": name }), h("span", {}, label), h("span", { class: "num" }, tokens(size)), share);
  });
  return [
    h("strong", {}, kind, check.turn === null ? "" : ` at turn ${check.turn}`),
    h("p", {}, check.sentence),
    ...(check.is_call ? [] : [h("ul", {}, ...parts)]),
    ...(check.after_is_derived ? [h("p", { class: "faint" }, "The parts after are an estimate.")] : []),
    h("p", { class: "faint" }, check.started_at ? exact(Date.parse(check.started_at)) : ""),
  ];
}
