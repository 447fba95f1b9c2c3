// @ts-check
// Paint a timeline layout on a surface.
import { duration, shortTokens } from "../../format.js";
import { LABEL_GAP_PX } from "./layout.js";
import { EVENTS, PARTS } from "./parts.js";

/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {Record<string, string>} Colors */
/** @typedef {import("./surfaces.js").Surface} Surface */

const GAP_LABEL_PX = 84;
const EVENT_PX = 14;
/** @type {Record<string, string>} */
const AXIS_TITLES = { turn: "Turn", time: "Time of day (local)", tokens: "Tokens sent so far" };
// A narrower bar has no room for its height.
const MIN_LABELED_PX = 26;

/**
 * `newest` is the index of the last check.
 * @typedef {{ scale: string, newest: number }} PaintState
 */

/**
 * @param {Surface} surface
 * @param {Layout} layout
 * @param {Colors} colors
 * @param {PaintState} state
 */
export function paint(surface, layout, colors, state) {
  const { plot } = layout;
  const right = plot.left + plot.width;
  for (const tick of layout.ticksY) {
    surface.line(plot.left, tick.y, right, tick.y, colors.line ?? "");
    surface.text(shortTokens(tick.tokens), plot.left - 8, tick.y + 4, colors.faint ?? "", "right");
  }
  paintBars(surface, layout, colors);
  let labelY = Infinity;
  for (const line of [...layout.lines].sort((a, b) => b.y - a.y)) {
    const color = colors[line.name] ?? "";
    if (!line.isBeyond) surface.line(plot.left, line.y, right, line.y, color, line.name === "trigger" ? [5, 3] : line.name === "cap" ? [] : [1, 3], 1.25);
    // Cap and window are often two pixels apart. Keep their labels apart.
    labelY = Math.min(line.y + 4, labelY - 12);
    surface.text(`${line.isBeyond ? "↑ " : ""}${line.name} ${shortTokens(line.tokens)}`, right + (line.isBeyond ? 1 : 6), labelY, color, "left");
  }
  paintHeights(surface, layout, colors);
  paintLane(surface, layout, colors);
  paintGaps(surface, layout, colors);
  paintMarkers(surface, layout, colors);
  const last = layout.bars.at(-1);
  if (last?.index === state.newest) paintRoom(surface, layout, last, colors);
  for (const { x, label } of layout.ticksX) surface.text(label, x, layout.bottom + 14, colors.faint ?? "", "center");
  const { faint = "" } = colors;
  surface.text(AXIS_TITLES[state.scale] ?? "", plot.left + plot.width / 2, layout.bottom + 30, faint, "center");
  surface.text("Prompt size (tokens)", 12, plot.top + plot.height / 2, faint, "center", false, true);
}

/**
 * Paint the bars part by part, because changing the color of a canvas is slow.
 * @param {Surface} surface
 * @param {Layout} layout
 * @param {Colors} colors
 */
function paintBars(surface, { bars, y }, colors) {
  const below = new Float64Array(bars.length);
  for (const [part, [name]] of PARTS.entries()) {
    const run = new BarRun(surface, colors[name] ?? "");
    for (let i = 0; i < bars.length; i++) {
      const { check, x, width } = /** @type {import("./layout.js").Bar} */ (bars[i]);
      // A compacted bar shows the remaining tokens. The removed ones are painted faded on top.
      const parts = check.after === null ? check.parts : (check.after_parts ?? [0, 0, 0, 0, check.after, 0]);
      const from = below[i] ?? 0;
      const to = from + (parts[part] ?? 0);
      if (to > from) run.add(x, width, y(to), y(from));
      below[i] = to;
    }
    run.paint();
  }
  bars.forEach(({ check, x, width }, i) => {
    const solid = below[i] ?? 0;
    if (check.before > solid) surface.rect(x, y(check.before), width, y(solid) - y(check.before), colors.history ?? "", 0.28);
    if (check.has_failed) surface.rect(x, y(Math.max(solid, check.before)) - 3, width, 3, colors.bad ?? "");
    if (check.after !== null && width >= 3) surface.line(x - 2, y(check.after), x + width + 2, y(check.after), colors.ink ?? "", [], 1.5);
  });
}

/** Joins adjacent bars of equal height into one rectangle. With a thousand checks, most parts stay equal for long. */
class BarRun {
  #left = 0;
  #right = 0;
  #top = 0;
  #bottom = 0;

  /** @param {Surface} surface @param {string} color */
  constructor(surface, color) {
    this.surface = surface;
    this.color = color;
  }

  /** @param {number} x @param {number} width @param {number} top @param {number} bottom */
  add(x, width, top, bottom) {
    if (top !== this.#top || bottom !== this.#bottom || Math.abs(x - this.#right) > 0.01) {
      this.paint();
      [this.#left, this.#top, this.#bottom] = [x, top, bottom];
    }
    this.#right = x + width;
  }

  paint() {
    if (this.#right > this.#left) this.surface.rect(this.#left, this.#top, this.#right - this.#left, this.#bottom - this.#top, this.color);
  }
}

/**
 * Paint the number of each compaction, with its result if there is room.
 * @param {Surface} surface
 * @param {Layout} layout
 * @param {Colors} colors
 */
function paintMarkers(surface, layout, colors) {
  for (const { check, text, middle, pill, label, isLabelLeft } of layout.markers) {
    const color = (check.has_failed ? colors.bad : check.fallback ? colors.warn : colors.compaction) ?? "";
    surface.pill(middle - pill / 2, 4, pill, 18, color);
    surface.text(text, middle, 17, colors.ground ?? "", "center", true);
    const labelX = middle + (pill / 2 + LABEL_GAP_PX) * (isLabelLeft ? -1 : 1);
    if (label) surface.text(label, labelX, 17, color, isLabelLeft ? "right" : "left", true);
  }
}

/** Paint the events below the bars. @param {Surface} surface @param {Layout} layout @param {Colors} colors */
function paintLane(surface, layout, colors) {
  for (const { x, kind, count } of layout.lane) {
    const { glyph, color } = EVENTS[kind];
    const text = count > 1 ? `${glyph}${count}` : glyph;
    const width = Math.max(EVENT_PX, text.length * 6 + 6);
    surface.pill(x - width / 2, layout.laneY - EVENT_PX / 2, width, EVENT_PX, colors[color] ?? "");
    surface.text(text, x, layout.laneY + 4, colors.ground ?? "", "center", true);
  }
}

/** Paint the gaps of shortened idle time. @param {Surface} surface @param {Layout} layout @param {Colors} colors */
function paintGaps(surface, layout, colors) {
  const { left, top, width, height } = layout.plot;
  let labelEnd = left;
  for (const { x, ms } of layout.gaps) {
    for (const side of [-1.5, 1.5]) surface.line(x + side, top, x + side, top + height, colors.line ?? "", [2, 3]);
    if (x - GAP_LABEL_PX / 2 < labelEnd || x + GAP_LABEL_PX / 2 > left + width) continue;
    paintLabel(surface, `${duration(ms)} idle`, x, top + height - 8, colors);
    labelEnd = x + GAP_LABEL_PX / 2;
  }
}

/** Paint the height of each bar, if there is room. @param {Surface} surface @param {Layout} layout @param {Colors} colors */
function paintHeights(surface, layout, colors) {
  for (const { check, x, width } of layout.bars) {
    if (width >= MIN_LABELED_PX) paintLabel(surface, shortTokens(check.before), x + width / 2, layout.y(check.before) - 4, colors);
  }
}

/** @param {import("../store.js").Check} check */
function hasMargin(check) {
  return !check.is_compaction && check.margin !== null && check.margin > 0;
}

/**
 * Paint a label on a background, which keeps it readable over bars and lines.
 * @param {Surface} surface
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {Colors} colors
 */
function paintLabel(surface, text, x, y, colors) {
  const width = text.length * 5.8 + 6;
  surface.rect(x - width / 2, y - 11, width, 14, colors.ground ?? "", 0.85);
  surface.text(text, x, y, colors.soft ?? "", "center");
}

/**
 * Paint how far the newest check is from the trigger, beside the plot, where the label covers no bar.
 * @param {Surface} surface
 * @param {Layout} layout
 * @param {import("./layout.js").Bar} last
 * @param {Colors} colors
 */
function paintRoom(surface, layout, last, colors) {
  if (!hasMargin(last.check)) return;
  const x = last.x + last.width / 2;
  const from = layout.y(last.check.before);
  const to = layout.y(last.check.trigger_tokens);
  if (from - to < 14) return;
  // Begin above the height of the bar, which is a text.
  const start = from - (last.width >= MIN_LABELED_PX ? 17 : 2);
  if (start > to + 2) surface.line(x, start, x, to + 2, colors.trigger ?? "", [2, 2]);
  // Below the label of the trigger.
  const labelY = Math.max((from + to) / 2 + 4, to + 18);
  surface.text(`${shortTokens(last.check.margin)} left`, layout.plot.left + layout.plot.width + 6, labelY, colors.soft ?? "", "left");
}
