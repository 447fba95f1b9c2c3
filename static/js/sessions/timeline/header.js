// @ts-check
// Header of the timeline: legend, note, axis and download buttons. Calls back into the timeline.
import { h, icon, setText } from "../../dom.js";
import { PARTS } from "./parts.js";

/** @typedef {import("./layout.js").Scale} Scale */
/**
 * @typedef {{ onScale: (scale: Scale) => void, onShortenGaps: (isOn: boolean) => void, onResetZoom: () => void,
 *   onSaveSvg: () => void, onSavePng: () => void }} Callbacks
 */

/** @type {[Scale, string][]} */
const SCALES = [
  ["turn", "Turns"],
  ["time", "Time"],
  ["tokens", "Tokens"],
];

export class TimelineHeader {
  #resetZoom = h("button", { class: "button quiet", type: "button", hidden: true, title: "Reset zoom (0)" }, "Reset zoom");
  #shortenGaps = h(
    "button",
    { class: "button", type: "button", "aria-pressed": "false", hidden: true, title: "Draw long idle times short" },
    "Shorten gaps",
  );
  #scales = h("div", { class: "segmented", role: "group", "aria-label": "Axis" });
  #legend = h(
    "ul",
    { class: "legend" },
    ...PARTS.map(([name, label]) => h("li", {}, h("span", { class: "swatch", "data-part": name }), label)),
  );
  #note = h("span", { class: "faint small" });
  element;

  /** @param {Callbacks} callbacks */
  constructor(callbacks) {
    for (const [scale, label] of SCALES) this.#addScale(scale, label, callbacks);
    this.#shortenGaps.addEventListener("click", () => {
      const isOn = this.#shortenGaps.getAttribute("aria-pressed") !== "true";
      this.#shortenGaps.setAttribute("aria-pressed", String(isOn));
      callbacks.onShortenGaps(isOn);
    });
    this.#resetZoom.addEventListener("click", callbacks.onResetZoom);
    const svg = downloadButton("SVG", callbacks.onSaveSvg);
    const png = downloadButton("PNG", callbacks.onSavePng);
    const end = h("div", { class: "end no-print" }, this.#resetZoom, this.#shortenGaps, this.#scales, svg, png);
    this.element = h("div", { class: "panel-head" }, h("h2", {}, "Tokens"), this.#legend, this.#note, end);
  }

  /** @param {Scale} scale @param {string} label @param {Callbacks} callbacks */
  #addScale(scale, label, callbacks) {
    const button = h("button", { type: "button", "aria-pressed": String(!this.#scales.children.length) }, label);
    button.addEventListener("click", () => {
      for (const other of this.#scales.children) other.setAttribute("aria-pressed", String(other === button));
      this.#shortenGaps.hidden = scale !== "time";
      callbacks.onScale(scale);
    });
    this.#scales.append(button);
  }

  /** @param {{ hasOnlyCalls: boolean, isEmpty: boolean, isZoomed: boolean }} state */
  update({ hasOnlyCalls, isEmpty, isZoomed }) {
    this.#legend.hidden = hasOnlyCalls;
    this.#resetZoom.hidden = !isZoomed;
    if (hasOnlyCalls) setText(this.#note, "Prompt tokens as reported by the model provider");
    else setText(this.#note, isEmpty ? "No data yet. Bars appear with the first check or model call." : "");
  }
}

/** @param {string} format @param {() => void} onclick */
function downloadButton(format, onclick) {
  return h("button", { class: "button quiet", type: "button", title: `Download as ${format}`, onclick }, icon("download"), format);
}
