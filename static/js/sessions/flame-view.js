// @ts-check
// One trace as a flame graph: time from left to right, depth from top to bottom. The tree has the same spans as text.
import { h } from "../dom.js";
import { duration, pluralize } from "../format.js";
import { kindOf } from "../kinds.js";
import { store } from "./store.js";
import { readColors } from "./timeline/parts.js";

const ROW_PX = 20;
const MIN_TEXT_PX = 28;
const MIN_TEXT_CHARS = 3;
const MAX_TEXT_CHARS = 200;
const AXIS_PX = 18;
const MAX_DEPTH = 60;

/** @typedef {{ at: number, x: number, y: number, width: number }} Box */
/** @typedef {{ titleOf: (at: number) => string, onSelect: (at: number) => void }} Callbacks */

export class FlameView {
  #canvas = h("canvas", { class: "flame-canvas", role: "img" });
  #title = h("p", { class: "flame-title soft small" });
  #tip = h("div", { class: "flame-tip", hidden: true });
  #stage = h("div", { class: "flame-stage" }, this.#canvas, this.#tip);
  element = h("div", { class: "flame", "data-testid": "flame", hidden: true }, this.#title, this.#stage);
  /** @type {Box[]} */ #boxes = [];
  /** @type {Record<string, string> | null} */ #colors = null;
  #cursor = -1;
  #callbacks;

  /** @param {Callbacks} callbacks */
  constructor(callbacks) {
    this.#callbacks = callbacks;
    new ResizeObserver(() => this.#draw()).observe(this.#stage);
    document.addEventListener("ariadne:theme", () => {
      this.#colors = null;
      this.#draw();
    });
    this.#canvas.addEventListener("click", (event) => {
      const box = this.#boxAt(event);
      if (box) this.#callbacks.onSelect(box.at);
    });
    this.#canvas.addEventListener("pointermove", (event) => this.#showTip(event));
    this.#canvas.addEventListener("pointerleave", () => (this.#tip.hidden = true));
  }

  /** Show the trace of a span, or the first one with -1. @param {number} cursor */
  show(cursor) {
    this.#cursor = cursor;
    this.#draw();
  }

  #draw() {
    const width = this.#stage.clientWidth;
    const root = rootOf(this.#cursor >= 0 ? this.#cursor : (store.tree.order[0] ?? -1));
    const context = this.#canvas.getContext("2d");
    if (this.element.hidden || !width || root.first < 0 || !context) return;
    const { boxes, rows, from, to } = layoutTrace(root, width);
    this.#boxes = boxes;
    const height = AXIS_PX + rows * ROW_PX + 4;
    const scale = devicePixelRatio || 1;
    this.#canvas.width = Math.round(width * scale);
    this.#canvas.height = Math.round(height * scale);
    this.#canvas.style.height = `${height}px`;
    context.scale(scale, scale);
    const colors = (this.#colors ??= readColors(this.element));
    const title = `${root.title}, ${duration(to - from)}, ${pluralize(root.spans, "span")}`;
    this.#title.textContent = title;
    this.#canvas.setAttribute("aria-label", `Flame graph of ${title}. The tree shows the same spans as text.`);
    this.#paintAxis(context, width, to - from, colors);
    for (const box of boxes) this.#paintBox(context, box, colors);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} length @param {Record<string, string>} colors */
  #paintAxis(context, width, length, colors) {
    context.font = `11px ${colors.font ?? "sans-serif"}`;
    context.fillStyle = colors.faint ?? "";
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      context.textAlign = share === 0 ? "left" : share === 1 ? "right" : "center";
      context.fillText(share ? duration(length * share) : "0", share * width, 12);
    }
    context.textAlign = "left";
  }

  /** @param {CanvasRenderingContext2D} context @param {Box} box @param {Record<string, string>} colors */
  #paintBox(context, { at, x, y, width }, colors) {
    context.fillStyle = colorOf(at, colors);
    context.globalAlpha = at === this.#cursor ? 1 : 0.75;
    context.fillRect(x, y, Math.max(1, width - 1), ROW_PX - 2);
    context.globalAlpha = 1;
    if (at === this.#cursor) {
      context.strokeStyle = colors.ink ?? "";
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(1, width - 3), ROW_PX - 4);
    }
    if (width < MIN_TEXT_PX) return;
    context.fillStyle = colors.ground ?? "";
    context.fillText(fitText(context, this.#callbacks.titleOf(at), width - 9), x + 5, y + 13);
  }

  /** @param {MouseEvent} event */
  #boxAt(event) {
    const { left, top } = this.#canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return this.#boxes.findLast((box) => y >= box.y && y < box.y + ROW_PX && x >= box.x - 1 && x <= box.x + Math.max(3, box.width));
  }

  /** @param {PointerEvent} event */
  #showTip(event) {
    const box = this.#boxAt(event);
    this.#tip.hidden = !box;
    if (!box) return;
    const { start, end, kind } = store.spans.columns;
    const from = start[box.at] ?? 0;
    const line = store.lines.get(store.spans.key(box.at)) ?? "";
    this.#tip.replaceChildren(
      h("strong", {}, `${this.#callbacks.titleOf(box.at)}${line}`),
      h("p", { class: "faint" }, `${kindOf(kind[box.at] ?? "").label}, ${duration((end[box.at] ?? Date.now()) - from)}`),
    );
    this.#tip.style.left = `${Math.min(box.x, this.#stage.clientWidth - 272)}px`;
    this.#tip.style.top = `${box.y + ROW_PX + 4}px`;
  }
}

/**
 * Return the part of the tree that is drawn: the trace of a span. Without trace rows, it is the whole tree.
 * @param {number} at
 */
function rootOf(at) {
  const { parent, place, size, order } = store.tree;
  let root = at;
  for (let up = at, depth = 0; up >= 0 && depth < 1000; up = parent[up] ?? -1, depth++) root = up;
  const { kind, name } = store.spans.columns;
  const count = root >= 0 ? (size[root] ?? 1) : 0;
  if (root >= 0 && kind[root] === "trace") return { first: place[root] ?? 0, count, spans: count - 1, title: name[root] ?? "Trace" };
  return { first: order.length ? 0 : -1, count: order.length, spans: order.length, title: "Trace" };
}

/** Shorten a text to a width in pixels. Return an empty text if less than a word of it would fit. @param {CanvasRenderingContext2D} context @param {string} text @param {number} room */
function fitText(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  const letters = [...text.slice(0, MAX_TEXT_CHARS)];
  while (letters.length && context.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return letters.length < MIN_TEXT_CHARS ? "" : `${letters.join("").trimEnd()}…`;
}

/** Place the spans of a trace. Spans narrower than half a pixel are joined with their neighbor. @param {{ first: number, count: number }} root @param {number} width */
function layoutTrace({ first, count }, width) {
  const { order, depth, from: sessionFrom, to: sessionTo } = store.tree;
  const { start, end } = store.spans.columns;
  const top = depth[order[first] ?? 0] ?? 0;
  const now = Date.now();
  let [from, to] = [Infinity, -Infinity];
  for (let k = first; k < first + count; k++) {
    const at = order[k] ?? 0;
    const startTime = start[at] ?? null;
    if (startTime === null || startTime < sessionFrom || startTime > sessionTo) continue;
    from = Math.min(from, startTime);
    to = Math.max(to, Math.min(end[at] ?? now, sessionTo));
  }
  const perMs = width / Math.max(1, to - from);
  /** @type {Box[]} */ const boxes = [];
  /** End of the last box in each row. @type {number[]} */ const ends = [];
  let rows = 1;
  for (let k = first; k < first + count; k++) {
    const at = order[k] ?? 0;
    const row = Math.min(MAX_DEPTH, (depth[at] ?? 0) - top);
    const startTime = start[at] ?? null;
    if (startTime === null || startTime < from || startTime > to) continue;
    const x = (startTime - from) * perMs;
    const boxWidth = Math.max(0, Math.min(end[at] ?? now, to) - startTime) * perMs;
    if (x + boxWidth < (ends[row] ?? -1) + 0.5) continue;
    ends[row] = x + boxWidth;
    rows = Math.max(rows, row + 1);
    boxes.push({ at, x, y: AXIS_PX + row * ROW_PX, width: boxWidth });
  }
  return { boxes, rows, from, to };
}

/** @param {number} at @param {Record<string, string>} colors */
function colorOf(at, colors) {
  const { kind } = store.spans.columns;
  if (store.statusOf(at) === "error") return colors.bad ?? "";
  const family = kindOf(kind[at] ?? "").family;
  const names = /** @type {Record<string, string>} */ ({ generation: "history", tool: "tools", compaction: "compaction", summary: "compaction", trouble: "warn" });
  return colors[names[family] ?? "system"] ?? "";
}
