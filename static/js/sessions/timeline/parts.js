// @ts-check
// The parts of a prompt, from the bottom of a bar to its top, and the colours of the timeline as they are now.
import { h } from "../../dom.js";

export const PARTS = /** @type {const} */ ([
  ["system", "System"],
  ["developer", "Developer"],
  ["tools", "Tool schemas"],
  ["memory", "Memory"],
  ["history", "History"],
  ["input", "User input"],
]);

/** The colours of tokens.css as they are now, light or dark. @param {Element} element */
export function readColours(element) {
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
    summary: "--summary",
    ground: "--surface",
  });
  const probe = h("span", { hidden: true });
  element.append(probe);
  /** @type {Record<string, string>} */ const colours = {};
  for (const [name, variable] of Object.entries(names)) {
    probe.style.color = `var(${variable})`;
    colours[name] = getComputedStyle(probe).color;
  }
  colours.font = getComputedStyle(element).fontFamily;
  probe.remove();
  return colours;
}
