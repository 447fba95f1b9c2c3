// @ts-check
// Draws a layout on a surface: a canvas on the page, or the text of an SVG for a file.
import { clock, duration, shortTokens } from "../../format.js";
import { PARTS } from "./parts.js";

/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {Record<string, string>} Colours */
/**
 * @typedef {{ rect(x: number, y: number, width: number, height: number, fill: string, opacity?: number): void,
 *   pill(x: number, y: number, width: number, height: number, fill: string): void,
 *   line(x1: number, y1: number, x2: number, y2: number, stroke: string, dash?: number[], width?: number): void,
 *   text(words: string, x: number, y: number, fill: string, align?: "left" | "right" | "center", bold?: boolean): void }} Surface
 */

const GAP_WORDS_PX = 84;
const LINE_LABELS = /** @type {Record<string, string>} */ ({ window: "window", cap: "cap", trigger: "trigger" });

/**
 * @param {Surface} surface
 * @param {Layout} layout
 * @param {Colours} colours
 * @param {{ scale: string, newest: number, projected: number | null }} state
 */
export function paint(surface, layout, colours, state) {
  const { plot } = layout;
  const right = plot.left + plot.width;
  for (const tick of layout.ticksY) {
    surface.line(plot.left, tick.y, right, tick.y, colours.line ?? "");
    surface.text(shortTokens(tick.tokens), plot.left - 8, tick.y + 4, colours.faint ?? "", "right");
  }
  drawBars(surface, layout, colours);
  let labelY = Infinity;
  for (const line of [...layout.lines].sort((a, b) => b.y - a.y)) {
    const colour = colours[line.name] ?? "";
    surface.line(plot.left, line.y, right, line.y, colour, line.name === "trigger" ? [5, 3] : line.name === "cap" ? [] : [1, 3], 1.25);
    // Cap and window are often two pixels apart; their words are not.
    labelY = Math.min(line.y + 4, labelY - 12);
    surface.text(`${LINE_LABELS[line.name]} ${shortTokens(line.tokens)}`, right + 6, labelY, colour, "left");
  }
  drawMargins(surface, layout, colours);
  drawGaps(surface, layout, colours);
  drawMarkers(surface, layout, colours);
  const last = layout.bars.at(-1);
  if (last?.index === state.newest) drawRoom(surface, layout, last, colours, state.projected);
  for (const bar of layout.ticksX) {
    surface.text(tickWords(bar, state.scale), bar.x + bar.width / 2, plot.top + plot.height + 14, colours.faint ?? "", "center");
  }
}

/** One part of all bars after the other: a surface is slow to change its colour. @param {Surface} surface @param {Layout} layout @param {Colours} colours */
function drawBars(surface, { bars, y }, colours) {
  const below = new Float64Array(bars.length);
  for (const [part, [name]] of PARTS.entries()) {
    const stretch = new Stretch(surface, colours[name] ?? "");
    for (let i = 0; i < bars.length; i++) {
      const { check, x, width } = /** @type {import("./layout.js").Bar} */ (bars[i]);
      // After a compaction what it left is solid, and what it took away is pale above that.
      const parts = check.after === null ? check.parts : (check.after_parts ?? [0, 0, 0, 0, check.after, 0]);
      const from = below[i] ?? 0;
      const to = from + (parts[part] ?? 0);
      if (to > from) stretch.add(x, width, y(to), y(from));
      below[i] = to;
    }
    stretch.draw();
  }
  bars.forEach(({ check, x, width }, i) => {
    const solid = below[i] ?? 0;
    if (check.before > solid) surface.rect(x, y(check.before), width, y(solid) - y(check.before), colours.history ?? "", 0.28);
    if (check.has_failed) surface.rect(x, y(Math.max(solid, check.before)) - 3, width, 3, colours.bad ?? "");
    if (check.after !== null && width >= 3) surface.line(x - 2, y(check.after), x + width + 2, y(check.after), colours.ink ?? "", [], 1.5);
  });
}

/** Bars that touch and are alike are one rectangle: of a thousand checks most parts stay the same for long. */
class Stretch {
  #left = 0;
  #right = 0;
  #top = 0;
  #bottom = 0;

  /** @param {Surface} surface @param {string} colour */
  constructor(surface, colour) {
    this.surface = surface;
    this.colour = colour;
  }

  /** @param {number} x @param {number} width @param {number} top @param {number} bottom */
  add(x, width, top, bottom) {
    if (top !== this.#top || bottom !== this.#bottom || Math.abs(x - this.#right) > 0.01) {
      this.draw();
      [this.#left, this.#top, this.#bottom] = [x, top, bottom];
    }
    this.#right = x + width;
  }

  draw() {
    if (this.#right > this.#left) this.surface.rect(this.#left, this.#top, this.#right - this.#left, this.#bottom - this.#top, this.colour);
  }
}

/** A number over each compaction, with tokens before → after where there is room. @param {Surface} surface @param {Layout} layout @param {Colours} colours */
function drawMarkers(surface, layout, colours) {
  for (const { check, number, middle, pill, words } of layout.markers) {
    const colour = (check.has_failed ? colours.bad : check.fallback ? colours.warn : colours.summary) ?? "";
    surface.pill(middle - pill / 2, 4, pill, 18, colour);
    surface.text(String(number), middle, 17, colours.ground ?? "", "center", true);
    if (words) surface.text(words, middle + pill / 2 + 5, 17, colour, "left", true);
  }
}

/** Where idle time was drawn short, and how much. @param {Surface} surface @param {Layout} layout @param {Colours} colours */
function drawGaps(surface, layout, colours) {
  const { left, top, width, height } = layout.plot;
  let free = left;
  for (const { x, ms } of layout.gaps) {
    for (const side of [-1.5, 1.5]) surface.line(x + side, top, x + side, top + height, colours.line ?? "", [2, 3]);
    if (x - GAP_WORDS_PX / 2 < free || x + GAP_WORDS_PX / 2 > left + width) continue;
    words(surface, `${duration(ms)} idle`, x, top + height - 8, colours, "center");
    free = x + GAP_WORDS_PX / 2;
  }
}

/** @param {import("./layout.js").Bar} bar @param {string} scale */
function tickWords({ check, at, index }, scale) {
  if (scale === "time" && check.started_at) return clock(Date.parse(check.started_at));
  return scale === "tokens" ? shortTokens(at) : String(check.turn ?? index + 1);
}

/** Checks that did not fire say how far they were from it, where there is room. @param {Surface} surface @param {Layout} layout @param {Colours} colours */
function drawMargins(surface, layout, colours) {
  for (const { check, x, width } of layout.bars) {
    if (width < 24 || !hasMargin(check)) continue;
    words(surface, shortTokens(check.margin), x + width / 2, layout.y(check.before) - 4, colours, "center");
  }
}

/** @param {import("../store.js").Check} check */
function hasMargin(check) {
  return !check.is_compaction && !check.is_recovery && check.margin !== null && check.margin > 0;
}

/** Words on a ground of their own: bars and lines may stand behind them. @param {Surface} surface @param {string} text @param {number} x @param {number} y @param {Colours} colours @param {"right" | "center"} align */
function words(surface, text, x, y, colours, align) {
  const width = text.length * 5.8 + 6;
  surface.rect(align === "right" ? x - width + 2 : x - width / 2, y - 11, width, 14, colours.ground ?? "", 0.85);
  surface.text(text, x, y, colours.soft ?? "", align);
}

/** How far the newest check is from the trigger, and when it would get there. @param {Surface} surface @param {Layout} layout @param {import("./layout.js").Bar} last @param {Colours} colours @param {number | null} projected */
function drawRoom(surface, layout, last, colours, projected) {
  if (!hasMargin(last.check)) return;
  const x = last.x + last.width / 2;
  const from = layout.y(last.check.before);
  const to = layout.y(last.check.trigger_tokens);
  if (from - to < 14) return;
  surface.line(x, from - 2, x, to + 2, colours.trigger ?? "", [2, 2]);
  const text = `${shortTokens(last.check.margin)} left${projected ? `, about ${projected} turn${projected === 1 ? "" : "s"}` : ""}`;
  words(surface, text, x - 5, (from + to) / 2 + 4, colours, "right");
}

/** Rectangles lie on whole pixels: sharper, and drawn in a tenth of the time. @param {CanvasRenderingContext2D} context @param {string} font @param {number} scale pixels of the screen in one of ours @returns {Surface} */
export function canvasSurface(context, font, scale) {
  const snap = (/** @type {number} */ value) => Math.round(value * scale) / scale;
  let [colour, letters] = ["", ""];
  const fill = (/** @type {string} */ wanted) => {
    if (wanted !== colour) context.fillStyle = colour = wanted;
  };
  return {
    rect(x, y, width, height, wanted, opacity = 1) {
      fill(wanted);
      const [left, top] = [snap(x), snap(y)];
      if (opacity < 1) context.globalAlpha = opacity;
      context.fillRect(left, top, Math.max(1 / scale, snap(x + width) - left), snap(y + height) - top);
      if (opacity < 1) context.globalAlpha = 1;
    },
    pill(x, y, width, height, wanted) {
      fill(wanted);
      context.beginPath();
      context.roundRect(x, y, width, height, height / 2);
      context.fill();
    },
    line(x1, y1, x2, y2, stroke, dash = [], width = 1) {
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.setLineDash(dash);
      context.beginPath();
      context.moveTo(x1, Math.round(y1) + 0.5);
      context.lineTo(x2, Math.round(y2) + 0.5);
      context.stroke();
    },
    text(words, x, y, wanted, align = "left", bold = false) {
      fill(wanted);
      const next = `${bold ? "600 " : ""}11px ${font}`;
      if (next !== letters) context.font = letters = next;
      context.textAlign = align;
      context.fillText(words, x, y);
    },
  };
}

/** @param {number} width @param {number} height @param {string} ground @returns {Surface & { toString(): string }} */
export function svgSurface(width, height, ground) {
  const parts = [`<rect width="${width}" height="${height}" fill="${ground}"/>`];
  const round = (/** @type {number} */ value) => value.toFixed(1);
  return {
    rect(x, y, w, h, fill, opacity = 1) {
      parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}" fill="${fill}"${opacity < 1 ? ` opacity="${opacity}"` : ""}/>`);
    },
    pill(x, y, w, h, fill) {
      parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}" rx="${round(h / 2)}" fill="${fill}"/>`);
    },
    line(x1, y1, x2, y2, stroke, dash = [], w = 1) {
      parts.push(`<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke="${stroke}" stroke-width="${w}"${dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : ""}/>`);
    },
    text(words, x, y, fill, align = "left", bold = false) {
      const anchor = { left: "start", right: "end", center: "middle" }[align];
      const safe = words.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
      parts.push(`<text x="${round(x)}" y="${round(y)}" fill="${fill}" text-anchor="${anchor}"${bold ? ' font-weight="600"' : ""}>${safe}</text>`);
    },
    toString() {
      return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">${parts.join("")}</svg>`;
    },
  };
}
