// @ts-check
// A strip above the span tree that shows all of its rows at once: tokens as height, errors and compactions as color. Click or
// drag to scroll.
import { h } from "../dom.js";
import { readColors } from "./timeline/parts.js";

/** @typedef {{ tokens: number | null, tone: string }} MapRow */

const HEIGHT = 20;
const DELAY_MS = 100;

export class Minimap {
  #canvas = h("canvas", { class: "minimap-canvas" });
  #view = h("div", { class: "minimap-view" });
  element = h("div", { class: "minimap no-print", "aria-hidden": "true" }, this.#canvas, this.#view);
  /** @type {Record<string, string> | null} */ #colors = null;
  #frame = 0;
  /** @type {{ rows: Int32Array, rowOf: (at: number) => MapRow, window: number } | null} */ #content = null;

  /** @param {(share: number) => void} onScroll called with the share of the rows to scroll to */
  constructor(onScroll) {
    const scroll = (/** @type {PointerEvent} */ event) => {
      const box = this.element.getBoundingClientRect();
      onScroll(Math.max(0, Math.min(1, (event.clientX - box.left) / Math.max(1, box.width))));
    };
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      scroll(event);
      this.element.addEventListener("pointermove", scroll);
      this.element.addEventListener("lostpointercapture", () => this.element.removeEventListener("pointermove", scroll), { once: true });
    });
    document.addEventListener("ariadne:theme", () => {
      this.#colors = null;
      this.#drawSoon();
    });
  }

  /** @param {Int32Array} rows @param {(at: number) => MapRow} rowOf @param {number} window tokens of the whole height */
  show(rows, rowOf, window) {
    this.#content = { rows, rowOf, window };
    this.#drawSoon();
  }

  /** Mark the rows on screen. @param {number} from @param {number} to shares of all rows */
  setView(from, to) {
    this.#view.style.left = `${from * 100}%`;
    this.#view.style.width = `${Math.max(0.5, (to - from) * 100)}%`;
    this.element.classList.toggle("is-whole", to - from >= 1);
  }

  #drawSoon() {
    // Visits all rows, so it waits until the tree itself is on screen.
    if (!this.#frame) this.#frame = window.setTimeout(() => this.#draw(), DELAY_MS);
  }

  #draw() {
    this.#frame = 0;
    const width = this.element.clientWidth;
    const context = this.#canvas.getContext("2d");
    if (!width || !context || !this.#content) return;
    const scale = devicePixelRatio || 1;
    this.#canvas.width = Math.round(width * scale);
    this.#canvas.height = HEIGHT * scale;
    context.scale(scale, scale);
    this.#colors ??= readColors(this.element);
    const { rows, rowOf, window } = this.#content;
    const columns = Math.min(rows.length, width);
    const step = width / Math.max(1, columns);
    for (let column = 0; column < columns; column++) {
      const [first, last] = [Math.floor((column * rows.length) / columns), Math.floor(((column + 1) * rows.length) / columns)];
      let [tokens, tone] = [0, ""];
      for (let k = first; k < last; k++) {
        const row = rowOf(rows[k] ?? 0);
        tokens = Math.max(tokens, row.tokens ?? 0);
        if (row.tone === "error" || !tone) tone = row.tone || tone;
      }
      const height = tone ? HEIGHT : Math.max(2, Math.min(1, tokens / Math.max(1, window)) * HEIGHT);
      context.fillStyle = (tone === "error" ? this.#colors.bad : tone ? this.#colors.compaction : this.#colors.history) ?? "";
      context.globalAlpha = tone ? 0.9 : 0.45;
      context.fillRect(column * step, HEIGHT - height, Math.max(1, step - (step > 3 ? 1 : 0)), height);
    }
  }
}
