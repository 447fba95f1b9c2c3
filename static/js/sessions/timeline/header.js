// @ts-check
// Header of the timeline: legend, note, axis and download buttons. Calls back into the timeline.
import { h, icon, setText } from "../../dom.js";
import { pluralize } from "../../format.js";
import { EVENT_KINDS } from "./layout.js";
import { EVENTS, PARTS } from "./parts.js";

/** @typedef {import("./layout.js").Scale} Scale */
/**
 * @typedef {{ onScale: (scale: Scale) => void, onShortenGaps: (isOn: boolean) => void, onWholeWindow: (isOn: boolean) => void, onResetZoom: () => void,
 *   onSave: (format: "svg" | "png") => void }} Callbacks
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
  #wholeWindow = h(
    "button",
    { class: "button", type: "button", "aria-pressed": "false", hidden: true, title: "End the axis at the window instead of the largest prompt" },
    "Whole window",
  );
  #scales = h("div", { class: "segmented", role: "group", "aria-label": "Axis" });
  #legend = legend();
  #note = h("span", { class: "chart-note faint small" });
  element;

  /** @param {Callbacks} callbacks */
  constructor(callbacks) {
    for (const [scale, label] of SCALES) this.#addScale(scale, label, callbacks);
    this.#shortenGaps.addEventListener("click", () => {
      const isOn = this.#shortenGaps.getAttribute("aria-pressed") !== "true";
      this.#shortenGaps.setAttribute("aria-pressed", String(isOn));
      callbacks.onShortenGaps(isOn);
    });
    this.#wholeWindow.addEventListener("click", () => callbacks.onWholeWindow(this.#wholeWindow.getAttribute("aria-pressed") !== "true"));
    this.#resetZoom.addEventListener("click", callbacks.onResetZoom);
    const svg = downloadButton("SVG", () => callbacks.onSave("svg"));
    const png = downloadButton("PNG", () => callbacks.onSave("png"));
    const end = h("div", { class: "end no-print" }, this.#resetZoom, this.#shortenGaps, this.#wholeWindow, this.#scales, svg, png);
    this.element = h("div", { class: "panel-head" }, h("h2", {}, "Tokens"), this.#legend, this.#note, end);
  }

  /** @param {Scale} scale @param {string} label @param {Callbacks} callbacks */
  #addScale(scale, label, callbacks) {
    const button = h("button", { type: "button", "data-scale": scale, "aria-pressed": String(!this.#scales.children.length) }, label);
    button.addEventListener("click", () => {
      this.setAxis(scale, this.#shortenGaps.getAttribute("aria-pressed") === "true");
      callbacks.onScale(scale);
    });
    this.#scales.append(button);
  }

  /** Show which axis is used. @param {Scale} scale @param {boolean} shortenGaps */
  setAxis(scale, shortenGaps) {
    for (const button of this.#scales.children) button.setAttribute("aria-pressed", String(button.getAttribute("data-scale") === scale));
    this.#shortenGaps.hidden = scale !== "time";
    this.#shortenGaps.setAttribute("aria-pressed", String(shortenGaps));
  }

  /**
   * @param {{ hasOnlyCalls: boolean, isEmpty: boolean, isZoomed: boolean, canFit: boolean, isWholeWindow: boolean, skewed: number,
   *   events: Set<import("./layout.js").EventKind> }} state
   */
  update({ hasOnlyCalls, isEmpty, isZoomed, canFit, isWholeWindow, skewed, events }) {
    for (const item of this.#legend.children) {
      if (item instanceof HTMLElement) item.hidden = item.dataset.event ? !events.has(/** @type {any} */ (item.dataset.event)) : hasOnlyCalls;
    }
    this.#resetZoom.hidden = !isZoomed;
    this.#wholeWindow.hidden = !canFit;
    this.#wholeWindow.setAttribute("aria-pressed", String(isWholeWindow));
    this.element.toggleAttribute("data-empty", isEmpty && !skewed && !hasOnlyCalls);
    setText(this.#note, noteOf({ hasOnlyCalls, isEmpty, skewed }));
  }
}

/** @param {{ hasOnlyCalls: boolean, isEmpty: boolean, skewed: number }} state */
function noteOf({ hasOnlyCalls, isEmpty, skewed }) {
  if (skewed) return `${pluralize(skewed, "check")} with a wrong clock drawn next to the others`;
  if (hasOnlyCalls) return "Prompt tokens as reported by the model provider";
  return isEmpty ? "No prompt sizes yet. Bars appear with the first check, or the first model call with token usage." : "";
}

/** Create the legend of parts and events. Events are hidden until there are any. */
export function legend() {
  const parts = PARTS.map(([name, label]) => h("li", {}, h("span", { class: "swatch", "data-part": name }), label));
  const events = EVENT_KINDS.map((kind) =>
    h("li", { "data-event": kind, hidden: true }, h("span", { class: "event-sign", "aria-hidden": "true" }, EVENTS[kind].glyph), EVENTS[kind].label),
  );
  return h("ul", { class: "legend" }, ...parts, ...events);
}

/** @param {string} format @param {() => void} onclick */
function downloadButton(format, onclick) {
  return h("button", { class: "button quiet", type: "button", title: `Download as ${format}`, onclick }, icon("download"), format);
}
