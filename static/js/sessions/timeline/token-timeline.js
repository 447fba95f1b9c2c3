// @ts-check
// <token-timeline>: one stacked bar per check, limit lines, and a marker per compaction. Never fetches.
import { h, isTyping } from "../../dom.js";
import { store } from "../store.js";
import { savePng, saveSvg } from "./export.js";
import { TimelineHeader } from "./header.js";
import { layout, positions, timeRangeOf } from "./layout.js";
import { placeMarkers } from "./markers.js";
import { paint } from "./paint.js";
import { readColors } from "./parts.js";
import { canvasSurface } from "./surfaces.js";
import { describeCheck } from "./tooltip.js";
import { clampRange, scaleRange, shiftRange } from "./zoom.js";

/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Scale} Scale */
/** @typedef {{ checks: unknown, positions: import("./layout.js").Positions, bySpan: Map<string, number> }} CheckIndex */

// While zooming, the tree and the marker buttons follow only once the wheel rests.
const SETTLE_MS = 120;
const ZOOM_FACTOR = 0.6;
const PAN_SHARE = 0.2;
const MIN_DRAG_PX = 5;
const MAX_HOVER_PX = 40;
const TOOLTIP_PX = 272;
const HELP = "Timeline. Press plus or minus to zoom, arrow keys to move between checks, and Enter to inspect.";

class TokenTimeline extends HTMLElement {
  /** @type {(() => void)[]} */ #unsubscribe = [];
  /** @type {Scale} */ #scale = "turn";
  #shortenGaps = false;
  /** @type {[number, number] | null} */ #zoom = null;
  /** @type {Layout | null} */ #layout = null;
  /** Computed once per set of checks, not per zoom. @type {CheckIndex | null} */ #index = null;
  #frame = 0;
  // Cached, because reading the size while zooming would force layout.
  #width = 0;
  #height = 0;
  #settleTimer = 0;
  #isZooming = false;
  #hovered = -1;
  /** @type {Record<string, string> | null} */ #colors = null;
  #darkMode = matchMedia("(prefers-color-scheme: dark)");
  /** @type {ResizeObserver | null} */ #observer = null;
  #canvas = h("canvas", { class: "timeline-canvas", role: "img", "aria-label": "Tokens per prompt by part" });
  #overlay = h("div", { class: "timeline-overlay" });
  // The highlights are elements behind the canvas, so that hovering doesn't repaint the bars.
  #selectedBand = h("div", { class: "timeline-band", hidden: true });
  #hoveredBand = h("div", { class: "timeline-band", hidden: true });
  #brush = h("div", { class: "timeline-brush", hidden: true });
  #tooltip = h("div", { class: "timeline-tip", role: "status", hidden: true });
  #stage = h("div", { class: "timeline-stage", tabindex: "0", role: "group", "aria-label": HELP });
  #header = new TimelineHeader({
    onScale: (scale) => {
      this.#scale = scale;
      this.#resetAxis();
    },
    onShortenGaps: (isOn) => {
      this.#shortenGaps = isOn;
      this.#resetAxis();
    },
    onResetZoom: () => this.#setZoom(null),
    onSaveSvg: () => this.#export(saveSvg),
    onSavePng: () => this.#export(savePng),
  });

  connectedCallback() {
    this.#stage.append(this.#selectedBand, this.#hoveredBand, this.#canvas, this.#overlay, this.#brush, this.#tooltip);
    this.replaceChildren(this.#header.element, this.#stage);
    this.#stage.addEventListener("pointermove", this.#onMove);
    this.#stage.addEventListener("pointerleave", () => this.#hover(-1));
    this.#stage.addEventListener("blur", () => this.#hover(-1));
    this.#stage.addEventListener("pointerdown", this.#onDown);
    this.#stage.addEventListener("dblclick", () => this.#setZoom(null));
    this.#stage.addEventListener("wheel", this.#onWheel, { passive: false });
    this.#stage.addEventListener("keydown", this.#onStageKey);
    this.#overlay.addEventListener("click", (event) => {
      const marker = markerAt(event);
      if (marker) store.select(marker.dataset.span ?? "");
    });
    document.addEventListener("keydown", this.#onKey);
    document.addEventListener("ariadne:theme", this.#onTheme);
    this.#darkMode.addEventListener("change", this.#onTheme);
    this.#observer = new ResizeObserver((entries) => {
      const box = entries.at(-1)?.contentRect;
      [this.#width, this.#height] = [Math.round(box?.width ?? 0), Math.round(box?.height ?? 0)];
      this.#drawSoon();
    });
    this.#observer.observe(this.#stage);
    this.#unsubscribe = [
      store.subscribe("checks", () => this.#drawSoon()),
      store.subscribe("spans", () => this.#drawSoon()),
      store.subscribe("selected", () => this.#showSelection()),
    ];
    this.#drawSoon();
  }

  disconnectedCallback() {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#observer?.disconnect();
    clearTimeout(this.#settleTimer);
    document.removeEventListener("keydown", this.#onKey);
    document.removeEventListener("ariadne:theme", this.#onTheme);
    this.#darkMode.removeEventListener("change", this.#onTheme);
  }

  #onTheme = () => {
    this.#colors = null;
    this.#drawSoon();
  };

  #drawSoon() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
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
    this.#layout = layout(store.checks, this.#checkIndex.positions, { width, height, scale: this.#scale, zoom: this.#zoom });
    this.#updateHeader();
    if (store.checks.length) {
      this.#colors ??= readColors(this);
      paint(canvasSurface(context, this.#colors.font ?? "sans-serif", scale), this.#layout, this.#colors, this.#paintState());
    }
    placeBand(this.#selectedBand, this.#layout, this.#selectedIndex());
    placeBand(this.#hoveredBand, this.#layout, this.#hovered);
    clearTimeout(this.#settleTimer);
    if (this.#isZooming) this.#settleTimer = window.setTimeout(() => this.#settle(), SETTLE_MS);
    else this.#settle();
  }

  #updateHeader() {
    this.#header.update({
      hasOnlyCalls: store.checks[0]?.is_call ?? false,
      isEmpty: store.checksSeq !== null && !store.checks.length,
      isZoomed: this.#zoom !== null,
    });
  }

  /** Update the marker buttons and the tree's time range. Runs less often than painting. */
  #settle() {
    this.#isZooming = false;
    if (!this.#layout) return;
    placeMarkers(this.#overlay, this.#layout.markers, this.#selectedIndex());
    store.setRange(this.#zoom && timeRangeOf(this.#layout, store.checks));
  }

  #showSelection() {
    if (!this.#layout) return;
    placeBand(this.#selectedBand, this.#layout, this.#selectedIndex());
    this.#settle();
  }

  get #checkIndex() {
    const { checks } = store;
    if (this.#index?.checks !== checks) {
      const bySpan = new Map(checks.map((check, i) => [check.span, i]));
      this.#index = { checks, positions: positions(checks, this.#scale, this.#shortenGaps), bySpan };
    }
    return this.#index;
  }

  /** Compute the positions again after the axis changed. */
  #resetAxis() {
    this.#index = null;
    this.#setZoom(null);
  }

  #paintState() {
    return { scale: this.#scale, newest: store.checks.length - 1, projected: store.projectedTurns };
  }

  /** Index of the check that is selected or contains the selected span, or -1. */
  #selectedIndex() {
    if (!store.selected) return -1;
    const { bySpan } = this.#checkIndex;
    for (let at = store.spans.findKey(store.selected); at >= 0; at = store.tree.parent[at] ?? -1) {
      const index = bySpan.get(store.spans.key(at));
      if (index !== undefined) return index;
    }
    return -1;
  }

  /** Show the tooltip of a check, or hide it with -1. @param {number} index */
  #hover(index) {
    if (index === this.#hovered) return;
    this.#hovered = index;
    const bar = this.#layout && placeBand(this.#hoveredBand, this.#layout, index);
    this.#tooltip.hidden = !bar;
    if (!bar) return;
    this.#tooltip.replaceChildren(...describeCheck(bar.check));
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
    return event.clientX - this.#stage.getBoundingClientRect().left;
  }

  #onMove = (/** @type {PointerEvent} */ event) => {
    if (event.buttons !== 0) return;
    const marker = markerAt(event);
    this.#hover(marker ? Number(marker.dataset.index) : this.#checkAt(this.#xOf(event)));
  };

  /** Select on a click, zoom on a drag. */
  #onDown = (/** @type {PointerEvent} */ event) => {
    if (!this.#layout || event.button !== 0 || markerAt(event)) return;
    const from = this.#xOf(event);
    this.#hover(-1);
    this.#stage.setPointerCapture(event.pointerId);
    const move = (/** @type {PointerEvent} */ moveEvent) => {
      const to = this.#xOf(moveEvent);
      this.#brush.hidden = Math.abs(to - from) < MIN_DRAG_PX;
      this.#brush.style.left = `${Math.min(from, to)}px`;
      this.#brush.style.width = `${Math.abs(to - from)}px`;
    };
    const up = (/** @type {PointerEvent} */ upEvent) => this.#endDrag(from, this.#xOf(upEvent));
    // Also fires without a pointerup, for example when a touch starts to scroll the page.
    const end = () => {
      this.#brush.hidden = true;
      this.#stage.removeEventListener("pointermove", move);
      this.#stage.removeEventListener("pointerup", up);
    };
    this.#stage.addEventListener("pointermove", move);
    this.#stage.addEventListener("pointerup", up);
    this.#stage.addEventListener("lostpointercapture", end, { once: true });
  };

  /** @param {number} from @param {number} to */
  #endDrag(from, to) {
    if (!this.#layout) return;
    if (Math.abs(to - from) < MIN_DRAG_PX) {
      const check = store.checks[this.#checkAt(to)];
      if (check) store.select(check.span);
      return;
    }
    const { from: start, to: end, plot } = this.#layout;
    const toPosition = (/** @type {number} */ x) => start + ((x - plot.left) * (end - start)) / plot.width;
    this.#setZoom([toPosition(Math.min(from, to)), toPosition(Math.max(from, to))]);
  }

  #onWheel = (/** @type {WheelEvent} */ event) => {
    const plot = this.#layout?.plot;
    const isHorizontal = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!plot || !(event.ctrlKey || event.metaKey || this.#zoom || isHorizontal)) return;
    event.preventDefault();
    if (isHorizontal) this.#pan(event.deltaX / plot.width);
    else this.#zoomBy(Math.exp(event.deltaY / 300), (this.#xOf(event) - plot.left) / plot.width);
  };

  /** @param {number} factor zooms in below 1 @param {number} anchor share of the width that stays in place */
  #zoomBy(factor, anchor = 0.5) {
    if (!this.#layout) return;
    const { from, to, whole } = this.#layout;
    const minLength = (whole[1] - whole[0]) / Math.max(1, store.checks.length) / 2;
    this.#setZoom(scaleRange([from, to], factor, anchor, minLength));
  }

  /** @param {number} share of the visible range */
  #pan(share) {
    if (this.#layout && this.#zoom) this.#setZoom(shiftRange([this.#layout.from, this.#layout.to], share));
  }

  /** Zoom to a range, or show everything with null. @param {[number, number] | null} range */
  #setZoom(range) {
    this.#zoom = range && this.#layout ? clampRange(range, this.#layout.whole) : range;
    this.#isZooming = true;
    this.#drawSoon();
  }

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") this.#zoomBy(ZOOM_FACTOR);
    else if (event.key === "-") this.#zoomBy(1 / ZOOM_FACTOR);
    else if (event.key === "0") this.#setZoom(null);
  };

  #onStageKey = (/** @type {KeyboardEvent} */ event) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step && event.shiftKey) this.#pan(step * PAN_SHARE);
    else if (step) this.#stepBar(step);
    else if (event.key === "Enter" && event.target === this.#stage) {
      const span = store.checks[this.#hovered]?.span;
      if (span) store.select(span);
    } else return;
    event.preventDefault();
  };

  /** Move to the next or previous bar. Pans at the edges. @param {number} step */
  #stepBar(step) {
    const bars = this.#layout?.bars ?? [];
    const current = bars.findIndex((bar) => bar.index === this.#hovered);
    const next = current >= 0 ? current + step : step > 0 ? 0 : bars.length - 1;
    const bar = bars[Math.max(0, Math.min(bars.length - 1, next))];
    if (bar) this.#hover(bar.index);
    if (current >= 0 && !bars[next]) this.#pan(step * PAN_SHARE);
  }

  /** @param {(name: string, picture: import("./export.js").Picture) => void} save */
  #export(save) {
    if (!this.#layout || !this.#colors) return;
    const picture = { width: this.#width, height: this.#height, layout: this.#layout, colors: this.#colors };
    save(`${this.dataset.session}-tokens`, { ...picture, state: this.#paintState() });
  }
}

/** Return the compaction marker under the pointer. @param {Event} event */
function markerAt(event) {
  const marker = event.target instanceof Element ? event.target.closest(".compaction-marker") : null;
  return marker instanceof HTMLElement ? marker : null;
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

customElements.define("token-timeline", TokenTimeline);
