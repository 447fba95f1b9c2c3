// @ts-check
// Save the timeline as an image file.
import { download, h } from "../../dom.js";
import { paint } from "./paint.js";
import { EVENTS, PARTS } from "./parts.js";
import { canvasSurface, shifted, svgSurface } from "./surfaces.js";

/** @typedef {import("./surfaces.js").Surface} Surface */
/**
 * @typedef {{ title: string, width: number, height: number, layout: import("./layout.js").Layout,
 *   colors: import("./paint.js").Colors, state: import("./paint.js").PaintState }} Picture
 */

// Title and legend above the chart.
const HEAD_PX = 48;
const SWATCH_PX = 9;

/** @param {string} name file name without extension @param {Picture} picture */
export function savePng(name, picture) {
  const { width, colors } = picture;
  const scale = devicePixelRatio || 1;
  const height = picture.height + HEAD_PX;
  const canvas = h("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(scale, scale);
  const surface = canvasSurface(context, colors.font ?? "sans-serif", scale);
  surface.rect(0, 0, width, height, colors.ground ?? "white");
  paintPicture(surface, picture);
  canvas.toBlob((blob) => blob && download(`${name}.png`, blob));
}

/** @param {string} name file name without extension @param {Picture} picture */
export function saveSvg(name, picture) {
  const surface = svgSurface(picture.width, picture.height + HEAD_PX, picture.colors.ground ?? "white");
  paintPicture(surface, picture);
  download(`${name}.svg`, new Blob([String(surface)], { type: "image/svg+xml" }));
}

/** @param {Surface} surface @param {Picture} picture */
function paintPicture(surface, { title, layout, colors, state }) {
  surface.text(title, layout.plot.left, 18, colors.ink ?? "", "left", true);
  paintLegend(surface, layout, colors);
  paint(shifted(surface, HEAD_PX), layout, colors, state);
}

/** @param {Surface} surface @param {import("./layout.js").Layout} layout @param {import("./paint.js").Colors} colors */
function paintLegend(surface, layout, colors) {
  const kinds = new Set(layout.lane.flatMap(({ events }) => events.map(({ kind }) => kind)));
  const entries = [
    ...PARTS.map(([name, label]) => ({ color: name, label })),
    { color: "compaction", label: "Compaction" },
    ...[...kinds].map((kind) => ({ color: EVENTS[kind].color, label: `${EVENTS[kind].glyph} ${EVENTS[kind].label}` })),
  ];
  let x = layout.plot.left;
  for (const { color, label } of entries) {
    surface.rect(x, 28, SWATCH_PX, SWATCH_PX, colors[color] ?? "");
    surface.text(label, x + SWATCH_PX + 5, 37, colors.soft ?? "");
    x += SWATCH_PX + 5 + label.length * 6.2 + 14;
  }
}
