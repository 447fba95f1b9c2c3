// @ts-check
// Save the timeline as an image file.
import { download, h } from "../../dom.js";
import { paint } from "./paint.js";
import { canvasSurface, svgSurface } from "./surfaces.js";

/**
 * @typedef {{ width: number, height: number, layout: import("./layout.js").Layout, colors: import("./paint.js").Colors,
 *   state: import("./paint.js").PaintState }} Picture
 */

/** @param {string} name file name without extension @param {Picture} picture */
export function savePng(name, { width, height, layout, colors, state }) {
  const scale = devicePixelRatio || 1;
  const canvas = h("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(scale, scale);
  const surface = canvasSurface(context, colors.font ?? "sans-serif", scale);
  surface.rect(0, 0, width, height, colors.ground ?? "white");
  paint(surface, layout, colors, state);
  canvas.toBlob((blob) => blob && download(`${name}.png`, blob));
}

/** @param {string} name file name without extension @param {Picture} picture */
export function saveSvg(name, { width, height, layout, colors, state }) {
  const surface = svgSurface(width, height, colors.ground ?? "white");
  paint(surface, layout, colors, state);
  download(`${name}.svg`, new Blob([String(surface)], { type: "image/svg+xml" }));
}
