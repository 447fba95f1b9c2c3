// @ts-check
// The parts of a prompt, the events below the bars, and the colors of the timeline.
import { h } from "../../dom.js";

/** Name and label of each part, from the bottom of a bar to the top. */
export const PARTS = /** @type {const} */ ([
  ["system", "System"],
  ["developer", "Developer"],
  ["tools", "Tool schemas"],
  ["memory", "Memory"],
  ["history", "History"],
  ["input", "User input"],
]);

/**
 * Sign, color and label of each kind of event in the lane below the bars.
 * @type {Record<import("./layout.js").EventKind, { glyph: string, color: string, label: string }>}
 */
export const EVENTS = {
  error: { glyph: "×", color: "bad", label: "Error" },
  overflow: { glyph: "↑", color: "cap", label: "Overflow" },
  warning: { glyph: "!", color: "warn", label: "Warning" },
  reread: { glyph: "↻", color: "soft", label: "Repeated tool call" },
  recall: { glyph: "?", color: "recall", label: "Recall" },
};

/** Read the colors of tokens.css in the current theme. @param {Element} element */
export function readColors(element) {
  const names = /** @type {Record<string, string>} */ ({
    system: "--part-system",
    developer: "--part-developer",
    tools: "--part-tools",
    memory: "--part-memory",
    history: "--part-history",
    input: "--part-input",
    trigger: "--line-trigger",
    cap: "--line-cap",
    window: "--line-window",
    line: "--line",
    faint: "--ink-faint",
    soft: "--ink-soft",
    ink: "--ink",
    bad: "--bad",
    warn: "--warn",
    compaction: "--compaction",
    recall: "--pinned",
    ground: "--surface",
  });
  const probe = h("span", { hidden: true });
  element.append(probe);
  /** @type {Record<string, string>} */ const colors = {};
  for (const [name, variable] of Object.entries(names)) {
    probe.style.color = `var(${variable})`;
    colors[name] = getComputedStyle(probe).color;
  }
  colors.font = getComputedStyle(element).fontFamily;
  probe.remove();
  return colors;
}
