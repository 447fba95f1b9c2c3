// @ts-check
// Keeps every <time> relative to now, with the exact moment in the reader's zone on hover.
import { exact, relative } from "./format.js";
import { setText } from "./dom.js";

/** @param {ParentNode} root */
export function localize(root) {
  const now = Date.now();
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = Date.parse(element.getAttribute("datetime") ?? "");
    if (Number.isNaN(at)) continue;
    setText(element, relative(at, now));
    if (!element.hasAttribute("data-exact")) {
      element.setAttribute("title", exact(at));
      element.setAttribute("data-exact", "");
    }
  }
}

export function keepTimes() {
  localize(document);
  setInterval(() => localize(document), 5000);
}
