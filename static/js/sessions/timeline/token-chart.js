// @ts-check
// The chart of prompt sizes: bars, limit lines, markers, a lane of events, tooltip, zoom. Knows no store and never fetches.
// The session page and the compare page use the same chart.
import { h, isTyping } from "../../dom.js";
import { savePng, saveSvg } from "./export.js";
import { layout, positions, timeRangeOf } from "./layout.js";
import { placeEvents, placeMarkers } from "./markers.js";
import { paint } from "./paint.js";
import { readColors } from "./parts.js";
import { canvasSurface } from "./surfaces.js";
import { describeCheck, describeEvents } from "./tooltip.js";
import { clampRange, scaleRange, shiftRange } from "./zoom.js";

/** @typedef {import("../store.js").Check} Check */
/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Limits} Limits */
/** @typedef {import("./layout.js").Scale} Scale */
/** @typedef {import("./layout.js").LaneEvent} LaneEvent */
/**
 * `onSelect` gets the key of a span. `onSettle` is called after each change of data or zoom, with the visible times if the
 * chart is zoomed. `onHover` gets the index of a check, or -1.
 * @typedef {{ onSelect?: (span: string) => void, onSettle?: (range: [number, number] | null) => void,
 *   onHover?: (index: number) => void }} Callbacks
 */

// While zooming, the tree and the marker buttons follow only once the wheel rests.
const SETTLE_MS = 120;
const ZOOM_FACTOR = 0.6;
const PAN_SHARE = 0.2;
const MIN_DRAG_PX = 5;
const MAX_HOVER_PX = 40;
const TOOLTIP_PX = 272;
const HELP = "Timeline. Press plus or minus to zoom, arrow keys to move between checks, and Enter to inspect.";

export class TokenChart {
  /** @type {Check[]} */ checks = [];
  /** Events of the lane below the bars. @type {LaneEvent[]} */ events = [];
  /** Index of the selected check, or -1. */ selected = -1;
  /** @type {[number, number] | null} */ zoom = null;
  /** @type {Scale} */ scale = "turn";
  shortenGaps = false;
  /** True to draw up to the window also if the prompts are far below it. */ isWholeWindow = false;
  /** Number of checks that have a wrong clock. */ skewed = 0;
  /** Axes that several charts share. @type {Limits | null} */ #limits = null;
  /** @type {Layout | null} */ #layout = null;
  /** Computed once per set of checks, not per zoom. @type {import("./layout.js").Positions | null} */ #positions = null;
  #frame = 0;
  // Cached, because reading the size while zooming would force layout.
  #width = 0;
  #height = 0;
  #settleTimer = 0;
  #isZooming = false;
  #hovered = -1;
  /** @type {Record<string, string> | null} */ #colors = null;
  #darkMode = matchMedia("(prefers-color-scheme: dark)");
  #print = matchMedia("print");
  #canvas = h("canvas", { class: "timeline-canvas", role: "img", "aria-label": "Tokens per prompt by part" });
  #overlay = h("div", { class: "timeline-overlay" });
  // The highlights are elements behind the canvas, so that hovering doesn't repaint the bars.
  #selectedBand = h("div", { class: "timeline-band", hidden: true });
  #hoveredBand = h("div", { class: "timeline-band", hidden: true });
  #brush = h("div", { class: "timeline-brush", hidden: true });
  #tooltip = h("div", { class: "timeline-tip", role: "status", hidden: true });
  stage = h("div", { class: "timeline-stage", tabindex: "0", role: "group", "aria-label": HELP });
  #observer = new ResizeObserver((entries) => {
    const box = entries.at(-1)?.contentRect;
    [this.#width, this.#height] = [Math.round(box?.width ?? 0), Math.round(box?.height ?? 0)];
    this.drawSoon();
  });
  #callbacks;

  /** @param {Callbacks} callbacks */
  constructor(callbacks) {
    this.#callbacks = callbacks;
    this.stage.append(this.#selectedBand, this.#hoveredBand, this.#canvas, this.#overlay, this.#brush, this.#tooltip);
    this.stage.addEventListener("pointermove", this.#onMove);
    this.stage.addEventListener("pointerleave", () => this.hover(-1));
    this.stage.addEventListener("blur", () => this.hover(-1));
    this.stage.addEventListener("pointerdown", this.#onDown);
    this.stage.addEventListener("dblclick", () => this.setZoom(null));
    this.stage.addEventListener("wheel", this.#onWheel, { passive: false });
    this.stage.addEventListener("keydown", this.#onStageKey);
    this.#overlay.addEventListener("click", this.#onOverlayClick);
  }

  /** Follow size, theme and the page's zoom keys. Call when the chart is added to the page. */
  connect() {
    this.#observer.observe(this.stage);
    document.addEventListener("keydown", this.#onKey);
    document.addEventListener("ariadne:theme", this.#onTheme);
    this.#darkMode.addEventListener("change", this.#onTheme);
    this.#print.addEventListener("change", this.#onPrint);
    this.drawSoon();
  }

  disconnect() {
    this.#observer.disconnect();
    clearTimeout(this.#settleTimer);
    document.removeEventListener("keydown", this.#onKey);
    document.removeEventListener("ariadne:theme", this.#onTheme);
    this.#darkMode.removeEventListener("change", this.#onTheme);
    this.#print.removeEventListener("change", this.#onPrint);
  }

  /** @param {{ checks: Check[], events?: LaneEvent[], limits?: Limits | null }} data */
  show({ checks, events = [], limits = null }) {
    if (checks !== this.checks) this.#positions = null;
    this.checks = checks;
    this.events = events;
    this.#limits = limits;
    this.drawSoon();
  }

  /** Change the axis, which resets the zoom. @param {Scale} scale @param {boolean} shortenGaps */
  setAxis(scale, shortenGaps) {
    this.scale = scale;
    this.shortenGaps = shortenGaps;
    this.#positions = null;
    this.setZoom(null);
  }

  /** Tokens and axis length that this chart needs. Charts with shared axes use the maximum of all. @returns {Limits} */
  get limits() {
    const { at, top: wholeTop, fittedTop } = this.#place();
    const top = this.isWholeWindow ? wholeTop : fittedTop;
    const [first, last, count] = [at[0] ?? 0, at[at.length - 1] ?? 0, at.length];
    const step = (count > 1 && (last - first) / (count - 1)) || 1;
    return { top, length: last - first + step };
  }

  /** True if the prompts are so far below the window that the axis can end above them. */
  get canFit() {
    const { top, fittedTop } = this.#place();
    return fittedTop < top;
  }

  /** @param {boolean} isOn */
  showWholeWindow(isOn) {
    this.isWholeWindow = isOn;
    this.drawSoon();
  }

  /** @param {number} index of a check, or -1 */
  setSelected(index) {
    this.selected = index;
    if (!this.#layout) return;
    placeBand(this.#selectedBand, this.#layout, index);
    this.#settle();
  }

  drawSoon() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #onTheme = () => {
    this.#colors = null;
    this.drawSoon();
  };

  /** Paper is white. The browser takes the page as soon as this returns, so it can't wait for a frame. */
  #onPrint = () => {
    this.#colors = null;
    this.#draw();
  };

  #place() {
    this.#positions ??= positions(this.checks, this.scale, this.shortenGaps);
    return this.#positions;
  }

  #draw() {
    this.#frame = 0;
    const [width, height] = [this.#width, this.#height];
    if (!width) return;
    const scale = devicePixelRatio || 1;
    if (this.#canvas.width !== Math.round(width * scale)) this.#canvas.width = Math.round(width * scale);
    if (this.#canvas.height !== Math.round(height * scale)) this.#canvas.height = Math.round(height * scale);
    const context = this.#canvas.getContext("2d");
    if (!context) return;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    this.skewed = this.#place().skewed;
    this.#layout = layout(this.checks, this.#place(), this.#view(width, height));
    if (this.checks.length) {
      this.#colors ??= readColors(this.stage);
      paint(canvasSurface(context, this.#colors.font ?? "sans-serif", scale), this.#layout, this.#colors, this.#paintState());
    }
    for (const band of [this.#selectedBand, this.#hoveredBand, this.#brush]) band.style.bottom = `${height - this.#layout.bottom}px`;
    placeBand(this.#selectedBand, this.#layout, this.selected);
    placeBand(this.#hoveredBand, this.#layout, this.#hovered);
    clearTimeout(this.#settleTimer);
    if (this.#isZooming) this.#settleTimer = window.setTimeout(() => this.#settle(), SETTLE_MS);
    else this.#settle();
  }

  /** @param {number} width @param {number} height @returns {import("./layout.js").View} */
  #view(width, height) {
    const { scale, zoom, events, isWholeWindow } = this;
    return { width, height, scale, zoom, events, isWholeWindow, limits: this.#limits, hasGaps: this.#place().gaps.length > 0 };
  }

  /** Update the buttons, and report the visible times. Runs less often than painting. */
  #settle() {
    this.#isZooming = false;
    if (!this.#layout) return;
    const { markers, lane, laneY } = this.#layout;
    placeMarkers(this.#overlay, markers, this.selected);
    placeEvents(this.#overlay, lane, laneY);
    this.#callbacks.onSettle?.(this.zoom && timeRangeOf(this.#layout, this.checks));
  }

  #paintState() {
    return { scale: this.scale, newest: this.checks.length - 1 };
  }

  /** Show the tooltip of a check, or hide it with -1. @param {number} index @param {HTMLElement[]} [content] */
  hover(index, content) {
    if (index === this.#hovered && !content) return;
    if (index !== this.#hovered) this.#callbacks.onHover?.(index);
    this.#hovered = index;
    const bar = this.#layout && placeBand(this.#hoveredBand, this.#layout, index);
    const check = this.checks[index];
    this.#tooltip.hidden = !bar;
    if (!bar || !check) return;
    this.#tooltip.replaceChildren(...(content ?? describeCheck(check)));
    const x = bar.x + bar.width / 2;
    this.#tooltip.style.left = `${x > this.#width / 2 ? Math.max(0, x - TOOLTIP_PX) : x + 16}px`;
  }

  /** Index of the check whose bar is closest to a position, or -1. @param {number} x */
  #checkAt(x) {
    let closest = -1;
    let minDistance = Infinity;
    for (const bar of this.#layout?.bars ?? []) {
      const distance = Math.abs(bar.x + bar.width / 2 - x);
      if (distance < minDistance) {
        minDistance = distance;
        closest = bar.index;
      }
    }
    return minDistance < MAX_HOVER_PX ? closest : -1;
  }

  /** @param {PointerEvent | WheelEvent} event */
  #xOf(event) {
    return event.clientX - this.stage.getBoundingClientRect().left;
  }

  #onMove = (/** @type {PointerEvent} */ event) => {
    if (event.buttons !== 0) return;
    const button = buttonAt(event);
    const mark = this.#layout?.lane[Number(button?.dataset.mark ?? -1)];
    if (mark) this.hover(mark.index, describeEvents(mark.events));
    else this.hover(button ? Number(button.dataset.index) : this.#checkAt(this.#xOf(event)));
  };

  /** Select a compaction or an event. A marker of several compactions zooms to them. */
  #onOverlayClick = (/** @type {MouseEvent} */ event) => {
    const button = buttonAt(event);
    if (!button) return;
    const marker = this.#layout?.markers.find(({ check }) => check.id === button.dataset.check);
    if (marker && marker.count > 1 && this.#zoomTo(marker.range)) return;
    this.#callbacks.onSelect?.(button.dataset.span ?? "");
  };

  /** Zoom to some checks with a little room around them. Returns false if that shows no more than now. @param {[number, number]} range */
  #zoomTo([first, last]) {
    if (!this.#layout) return false;
    const { from, to, whole } = this.#layout;
    const room = Math.max((last - first) * 0.15, ((whole[1] - whole[0]) / Math.max(1, this.checks.length)) * 0.75);
    const [start, end] = [first - room, last + room];
    if (end - start >= (to - from) * 0.95) return false;
    this.setZoom([start, end]);
    return true;
  }

  /** Select on a click, zoom on a drag. */
  #onDown = (/** @type {PointerEvent} */ event) => {
    if (!this.#layout || event.button !== 0 || buttonAt(event)) return;
    const from = this.#xOf(event);
    this.hover(-1);
    this.stage.setPointerCapture(event.pointerId);
    const move = (/** @type {PointerEvent} */ moveEvent) => {
      if (!moveEvent.buttons) return end();
      const to = this.#xOf(moveEvent);
      this.#brush.hidden = Math.abs(to - from) < MIN_DRAG_PX;
      this.#brush.style.left = `${Math.min(from, to)}px`;
      this.#brush.style.width = `${Math.abs(to - from)}px`;
    };
    const up = (/** @type {PointerEvent} */ upEvent) => this.#endDrag(from, this.#xOf(upEvent));
    // Capture is also lost without a pointerup, for example when a touch starts to scroll the page. If that was before
    // the next event, the browser reports nothing, and only the buttons tell.
    const end = () => {
      this.#brush.hidden = true;
      this.stage.removeEventListener("pointermove", move);
      this.stage.removeEventListener("pointerup", up);
    };
    this.stage.addEventListener("pointermove", move);
    this.stage.addEventListener("pointerup", up);
    this.stage.addEventListener("lostpointercapture", end, { once: true });
  };

  /** @param {number} from @param {number} to */
  #endDrag(from, to) {
    if (!this.#layout) return;
    if (Math.abs(to - from) < MIN_DRAG_PX) {
      const check = this.checks[this.#checkAt(to)];
      if (check) this.#callbacks.onSelect?.(check.span);
      return;
    }
    const { from: start, to: end, plot } = this.#layout;
    const toPosition = (/** @type {number} */ x) => start + ((x - plot.left) * (end - start)) / plot.width;
    this.setZoom([toPosition(Math.min(from, to)), toPosition(Math.max(from, to))]);
  }

  #onWheel = (/** @type {WheelEvent} */ event) => {
    const plot = this.#layout?.plot;
    const isHorizontal = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!plot || !(event.ctrlKey || event.metaKey || this.zoom || isHorizontal)) return;
    event.preventDefault();
    if (isHorizontal) this.#pan(event.deltaX / plot.width);
    else this.#zoomBy(Math.exp(event.deltaY / 300), (this.#xOf(event) - plot.left) / plot.width);
  };

  /** @param {number} factor zooms in below 1 @param {number} anchor share of the width that stays in place */
  #zoomBy(factor, anchor = 0.5) {
    if (!this.#layout) return;
    const { from, to, whole } = this.#layout;
    const minLength = (whole[1] - whole[0]) / Math.max(1, this.checks.length) / 2;
    this.setZoom(scaleRange([from, to], factor, anchor, minLength));
  }

  /** @param {number} share of the visible range */
  #pan(share) {
    if (this.#layout && this.zoom) this.setZoom(shiftRange([this.#layout.from, this.#layout.to], share));
  }

  /** Zoom to a range of the axis, or show everything with null. @param {[number, number] | null} range */
  setZoom(range) {
    this.zoom = range && this.#layout?.bars.length ? clampRange(range, this.#layout.whole) : range;
    this.#isZooming = true;
    this.drawSoon();
  }

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") this.#zoomBy(ZOOM_FACTOR);
    else if (event.key === "-") this.#zoomBy(1 / ZOOM_FACTOR);
    else if (event.key === "0") this.setZoom(null);
  };

  #onStageKey = (/** @type {KeyboardEvent} */ event) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step && event.shiftKey) this.#pan(step * PAN_SHARE);
    else if (step) this.#stepBar(step);
    else if (event.key === "Enter" && event.target === this.stage) {
      const span = this.checks[this.#hovered]?.span;
      if (span) this.#callbacks.onSelect?.(span);
    } else return;
    event.preventDefault();
  };

  /** Move to the next or previous bar. Pans at the edges. @param {number} step */
  #stepBar(step) {
    const bars = this.#layout?.bars ?? [];
    const current = bars.findIndex((bar) => bar.index === this.#hovered);
    const next = current >= 0 ? current + step : step > 0 ? 0 : bars.length - 1;
    const bar = bars[Math.max(0, Math.min(bars.length - 1, next))];
    if (bar) this.hover(bar.index);
    if (current >= 0 && !bars[next]) this.#pan(step * PAN_SHARE);
  }

  /** Save the chart with title and legend. @param {"svg" | "png"} format @param {string} name @param {string} title */
  save(format, name, title) {
    if (!this.#layout || !this.#colors) return;
    const picture = { title, width: this.#width, height: this.#height, layout: this.#layout, colors: this.#colors };
    (format === "svg" ? saveSvg : savePng)(name, { ...picture, state: this.#paintState() });
  }
}

/** Return the marker or event button under the pointer. @param {Event} event */
function buttonAt(event) {
  const button = event.target instanceof Element ? event.target.closest(".compaction-marker, .timeline-event") : null;
  return button instanceof HTMLElement ? button : null;
}

/**
 * Place a highlight behind the bar of a check, or hide it. Returns the bar.
 * @param {HTMLElement} band
 * @param {Layout} layout
 * @param {number} index
 */
function placeBand(band, layout, index) {
  const bar = layout.bars.find((other) => other.index === index);
  band.hidden = !bar;
  if (bar) {
    band.style.left = `${bar.x - 3}px`;
    band.style.width = `${bar.width + 6}px`;
  }
  return bar;
}
