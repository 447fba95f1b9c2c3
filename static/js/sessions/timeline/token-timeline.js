// @ts-check
// The token timeline: one stacked bar a check, the lines it is held against, a marker a compaction. Never fetches.
import { download, h, icon, isTyping } from "../../dom.js";
import { store } from "../store.js";
import { layout, positions } from "./layout.js";
import { placeMarkers } from "./markers.js";
import { canvasSurface, paint, svgSurface } from "./paint.js";
import { PARTS, readColours } from "./parts.js";
import { toldOf } from "./tooltip.js";

/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Scale} Scale */

// The tree takes over the times in sight, and buttons their places, when the hand rests and not at every notch of the wheel.
const SETTLE_MS = 120;

class TokenTimeline extends HTMLElement {
  /** @type {(() => void)[]} */ #undo = [];
  /** @type {Scale} */ #scale = "turn";
  #compress = false;
  /** @type {[number, number] | null} */ #zoom = null;
  /** @type {Layout | null} */ #layout = null;
  /** What does not change while one zooms. @type {{ of: unknown, placed: import("./layout.js").Positions, bySpan: Map<string, number> } | null} */ #known = null;
  #frame = 0;
  // Kept, because asking while one zooms would lay the page out twice a frame.
  #width = 0;
  #height = 0;
  #settle = 0;
  #isMoving = false;
  #hovered = -1;
  /** @type {Record<string, string> | null} */ #colours = null;
  /** @type {ResizeObserver | null} */ #resize = null;
  #canvas = h("canvas", { class: "timeline-canvas", role: "img", "aria-label": "Tokens of each prompt by part" });
  #overlay = h("div", { class: "timeline-overlay" });
  // Behind the bars, so that pointing at one does not draw them all again.
  #chosen = h("div", { class: "timeline-band", hidden: true });
  #pointed = h("div", { class: "timeline-band", hidden: true });
  #brush = h("div", { class: "timeline-brush", hidden: true });
  #tip = h("div", { class: "timeline-tip", role: "status", hidden: true });
  #stage = h("div", { class: "timeline-stage", tabindex: "0", role: "group", "aria-label": "Timeline. Plus and minus zoom, arrows move along the checks, Enter inspects." });
  #reset = h("button", { class: "button quiet", type: "button", hidden: true, title: "Show everything (0)" }, "Everything");
  #legend = h("ul", { class: "legend" }, ...PARTS.map(([name, label]) => h("li", {}, h("span", { class: "swatch", "data-part": name }), label)));
  #note = h("span", { class: "faint small" });

  connectedCallback() {
    this.#stage.append(this.#chosen, this.#pointed, this.#canvas, this.#overlay, this.#brush, this.#tip);
    const scales = h(
      "div",
      { class: "segmented", role: "group", "aria-label": "Axis" },
      .../** @type {[Scale, string][]} */ ([
        ["turn", "Turns"],
        ["time", "Time"],
        ["tokens", "Tokens"],
      ]).map(([scale, label]) => {
        const button = h("button", { type: "button", "aria-pressed": String(scale === this.#scale) }, label);
        button.addEventListener("click", () => {
          this.#scale = scale;
          for (const other of scales.children) other.setAttribute("aria-pressed", String(other === button));
          compress.hidden = scale !== "time";
          this.#replace();
        });
        return button;
      }),
    );
    const compress = h("button", { class: "button", type: "button", "aria-pressed": "false", hidden: true, title: "Draw long idle times short" }, "Compress gaps");
    compress.addEventListener("click", () => {
      this.#compress = !this.#compress;
      compress.setAttribute("aria-pressed", String(this.#compress));
      this.#replace();
    });
    this.#reset.addEventListener("click", () => this.#setZoom(null));
    const save = h("button", { class: "button quiet", type: "button", title: "Save the timeline as SVG" }, icon("download"), "SVG");
    save.addEventListener("click", () => this.#saveSvg());
    const png = h("button", { class: "button quiet", type: "button", title: "Save the timeline as PNG" }, icon("download"), "PNG");
    png.addEventListener("click", () => this.#savePng());
    this.replaceChildren(
      h("div", { class: "panel-head" }, h("h2", {}, "Tokens"), this.#legend, this.#note, h("div", { class: "end no-print" }, this.#reset, compress, scales, save, png)),
      this.#stage,
    );
    this.#stage.addEventListener("pointermove", this.#onMove);
    this.#stage.addEventListener("pointerleave", () => this.#hover(-1));
    this.#stage.addEventListener("blur", () => this.#hover(-1));
    this.#stage.addEventListener("pointerdown", this.#onDown);
    this.#overlay.addEventListener("click", (event) => {
      const marker = event.target instanceof Element ? event.target.closest(".compaction-marker") : null;
      if (marker instanceof HTMLElement) store.select(marker.dataset.span ?? "");
    });
    this.#stage.addEventListener("dblclick", () => this.#setZoom(null));
    this.#stage.addEventListener("wheel", this.#onWheel, { passive: false });
    this.#stage.addEventListener("keydown", this.#onStageKey);
    document.addEventListener("keydown", this.#onKey);
    document.addEventListener("ariadne:theme", this.#onTheme);
    this.#dark.addEventListener("change", this.#onTheme);
    this.#resize = new ResizeObserver((entries) => {
      const box = entries.at(-1)?.contentRect;
      [this.#width, this.#height] = [Math.round(box?.width ?? 0), Math.round(box?.height ?? 0)];
      this.#drawSoon();
    });
    this.#resize.observe(this.#stage);
    this.#undo = [store.subscribe("checks", () => this.#drawSoon()), store.subscribe("selected", () => this.#showChosen()), store.subscribe("spans", () => this.#drawSoon())];
    this.#drawSoon();
  }

  #dark = matchMedia("(prefers-color-scheme: dark)");

  disconnectedCallback() {
    for (const undo of this.#undo) undo();
    this.#resize?.disconnect();
    clearTimeout(this.#settle);
    document.removeEventListener("keydown", this.#onKey);
    document.removeEventListener("ariadne:theme", this.#onTheme);
    this.#dark.removeEventListener("change", this.#onTheme);
  }

  #onTheme = () => {
    this.#colours = null;
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
    const made = layout(store.checks, this.#facts.placed, { width, height, scale: this.#scale, zoom: this.#zoom });
    this.#layout = made;
    const isCalls = store.checks[0]?.is_call ?? false;
    this.#legend.hidden = isCalls;
    this.#note.textContent = isCalls ? "Prompts of the model's calls, as their provider counted them" : store.checksSeq !== null && !store.checks.length ? "Nothing to draw yet: bars appear with the first check or call of the model." : "";
    this.#reset.hidden = !this.#zoom;
    if (store.checks.length) {
      this.#colours ??= readColours(this);
      paint(canvasSurface(context, this.#colours.font ?? "sans-serif", scale), made, this.#colours, this.#state());
    }
    placeBand(this.#chosen, made, this.#selectedIndex());
    placeBand(this.#pointed, made, this.#hovered);
    clearTimeout(this.#settle);
    if (this.#isMoving) this.#settle = window.setTimeout(() => this.#rest(), SETTLE_MS);
    else this.#rest();
  }

  /** What follows the picture, but not at its pace. */
  #rest() {
    this.#isMoving = false;
    if (!this.#layout) return;
    placeMarkers(this.#overlay, this.#layout.markers, this.#selectedIndex());
    store.showRange(this.#zoom && timesOf(this.#layout));
  }

  #showChosen() {
    if (!this.#layout) return;
    placeBand(this.#chosen, this.#layout, this.#selectedIndex());
    this.#rest();
  }

  get #facts() {
    if (this.#known?.of !== store.checks) {
      this.#known = { of: store.checks, placed: positions(store.checks, this.#scale, this.#compress), bySpan: new Map(store.checks.map((check, i) => [check.span, i])) };
    }
    return this.#known;
  }

  /** Another axis: everything is placed anew. */
  #replace() {
    this.#known = null;
    this.#setZoom(null);
  }

  #state() {
    return { scale: this.#scale, newest: store.checks.length - 1, projected: store.projectedTurns };
  }

  /** The check that holds the selected span, which may be any of its children. */
  #selectedIndex() {
    if (!store.selected) return -1;
    const { bySpan } = this.#facts;
    for (let at = store.spans.findKey(store.selected); at >= 0; at = store.tree.parent[at] ?? -1) {
      const found = bySpan.get(store.spans.key(at));
      if (found !== undefined) return found;
    }
    return -1;
  }

  /** @param {number} index */
  #hover(index) {
    if (index === this.#hovered) return;
    this.#hovered = index;
    const bar = this.#layout && placeBand(this.#pointed, this.#layout, index);
    this.#tip.hidden = !bar;
    if (bar) {
      this.#tip.replaceChildren(...toldOf(bar.check));
      const width = this.#width;
      const x = bar.x + bar.width / 2;
      this.#tip.style.left = `${x > width / 2 ? Math.max(0, x - 272) : x + 16}px`;
    }
  }

  /** @param {number} x */
  #nearest(x) {
    const bars = this.#layout?.bars ?? [];
    let best = -1;
    let distance = Infinity;
    for (const bar of bars) {
      const away = Math.abs(bar.x + bar.width / 2 - x);
      if (away < distance) {
        distance = away;
        best = bar.index;
      }
    }
    return distance < 40 ? best : -1;
  }

  /** @param {PointerEvent | WheelEvent} event */
  #x(event) {
    return event.clientX - this.#stage.getBoundingClientRect().left;
  }

  #onMove = (/** @type {PointerEvent} */ event) => {
    if (event.buttons !== 0) return;
    const marker = event.target instanceof Element ? event.target.closest(".compaction-marker") : null;
    this.#hover(marker instanceof HTMLElement ? Number(marker.dataset.index) : this.#nearest(this.#x(event)));
  };

  #onDown = (/** @type {PointerEvent} */ event) => {
    if (!this.#layout || event.button !== 0) return;
    if (event.target instanceof Element && event.target.closest(".compaction-marker")) return;
    const from = this.#x(event);
    this.#hover(-1);
    this.#stage.setPointerCapture(event.pointerId);
    const move = (/** @type {PointerEvent} */ at) => {
      const to = this.#x(at);
      this.#brush.hidden = Math.abs(to - from) < 5;
      this.#brush.style.left = `${Math.min(from, to)}px`;
      this.#brush.style.width = `${Math.abs(to - from)}px`;
    };
    const up = (/** @type {PointerEvent} */ at) => {
      const made = this.#layout;
      if (!made) return;
      const to = this.#x(at);
      if (Math.abs(to - from) < 5) {
        const check = store.checks[this.#nearest(to)];
        if (check) store.select(check.span);
        return;
      }
      const unit = (made.to - made.from) / made.plot.width;
      this.#setZoom([made.from + (Math.min(from, to) - made.plot.left) * unit, made.from + (Math.max(from, to) - made.plot.left) * unit]);
    };
    // Also where the browser takes the pointer away, as it does when a finger scrolls the page.
    const end = () => {
      this.#brush.hidden = true;
      this.#stage.removeEventListener("pointermove", move);
      this.#stage.removeEventListener("pointerup", up);
    };
    this.#stage.addEventListener("pointermove", move);
    this.#stage.addEventListener("pointerup", up);
    this.#stage.addEventListener("lostpointercapture", end, { once: true });
  };

  #onWheel = (/** @type {WheelEvent} */ event) => {
    const made = this.#layout;
    if (!made || !(event.ctrlKey || event.metaKey || this.#zoom || Math.abs(event.deltaX) > Math.abs(event.deltaY))) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.#pan(event.deltaX / made.plot.width);
    else this.#zoomBy(Math.exp(event.deltaY / 300), (this.#x(event) - made.plot.left) / made.plot.width);
  };

  /** @param {number} factor below 1 goes in @param {number} anchor 0 to 1, what stays in place */
  #zoomBy(factor, anchor = 0.5) {
    const made = this.#layout;
    if (!made) return;
    const size = made.to - made.from;
    const least = (made.whole[1] - made.whole[0]) / Math.max(1, store.checks.length) / 2;
    const next = Math.max(least, size * factor);
    const from = made.from + (size - next) * Math.max(0, Math.min(1, anchor));
    this.#setZoom([from, from + next]);
  }

  /** @param {number} share of what is seen */
  #pan(share) {
    const made = this.#layout;
    if (!made || !this.#zoom) return;
    const by = (made.to - made.from) * share;
    this.#setZoom([made.from + by, made.to + by]);
  }

  /** @param {[number, number] | null} zoom */
  #setZoom(zoom) {
    const whole = this.#layout?.whole;
    if (zoom && whole) {
      const size = Math.min(zoom[1] - zoom[0], whole[1] - whole[0]);
      const from = Math.max(whole[0], Math.min(whole[1] - size, zoom[0]));
      zoom = size >= whole[1] - whole[0] ? null : [from, from + size];
    }
    this.#zoom = zoom;
    this.#isMoving = true;
    this.#drawSoon();
  }

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") this.#zoomBy(0.6);
    else if (event.key === "-") this.#zoomBy(1 / 0.6);
    else if (event.key === "0") this.#setZoom(null);
  };

  #onStageKey = (/** @type {KeyboardEvent} */ event) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step && event.shiftKey) this.#pan(step * 0.2);
    else if (step) this.#stepBar(step);
    else if (event.key === "Enter" && event.target === this.#stage) {
      const span = store.checks[this.#hovered]?.span;
      if (span) store.select(span);
    } else return;
    event.preventDefault();
  };

  /** Along the bars in sight: where checks are crowded, each stands for those that share its column. @param {number} step */
  #stepBar(step) {
    const bars = this.#layout?.bars ?? [];
    const at = bars.findIndex((bar) => bar.index === this.#hovered);
    const next = at >= 0 ? at + step : step > 0 ? 0 : bars.length - 1;
    const bar = bars[Math.max(0, Math.min(bars.length - 1, next))];
    if (bar) this.#hover(bar.index);
    if (at >= 0 && !bars[next]) this.#pan(step * 0.2);
  }

  #savePng() {
    const canvas = h("canvas", { width: this.#canvas.width, height: this.#canvas.height });
    const context = canvas.getContext("2d");
    if (!context || !this.#layout || !this.#colours) return;
    const scale = devicePixelRatio || 1;
    context.scale(scale, scale);
    const surface = canvasSurface(context, this.#colours.font ?? "sans-serif", scale);
    surface.rect(0, 0, this.#width, this.#height, this.#colours.ground ?? "white");
    paint(surface, this.#layout, this.#colours, this.#state());
    canvas.toBlob((blob) => blob && download(`${this.dataset.session}-tokens.png`, blob));
  }

  #saveSvg() {
    if (!this.#layout || !this.#colours) return;
    const surface = svgSurface(this.#width, this.#height, this.#colours.ground ?? "white");
    paint(surface, this.#layout, this.#colours, this.#state());
    download(`${this.dataset.session}-tokens.svg`, new Blob([String(surface)], { type: "image/svg+xml" }));
  }
}

/** Puts a band behind one bar, if that is in sight. @param {HTMLElement} band @param {Layout} made @param {number} index of a check */
function placeBand(band, made, index) {
  const bar = made.bars.find((one) => one.index === index);
  band.hidden = !bar;
  if (bar) {
    band.style.left = `${bar.x - 3}px`;
    band.style.width = `${bar.width + 6}px`;
  }
  return bar;
}

/** From the first check in sight to the one after the last. @param {Layout} made @returns {[number, number] | null} */
function timesOf({ bars }) {
  const [first, last] = [bars[0], bars.at(-1)];
  if (!first?.check.started_at || !last?.check.started_at) return null;
  const from = Date.parse(first.check.started_at);
  const to = Date.parse(store.checks[last.index + 1]?.started_at ?? last.check.ended_at ?? last.check.started_at);
  return [from, Math.max(from + 1, to)];
}

customElements.define("token-timeline", TokenTimeline);
