// @ts-check
// Show every <time> relative to now, with the exact local time as its tooltip.
import { setText } from "./dom.js";
import { exactTime, relativeTime } from "./format.js";

const UPDATE_MS = 5000;

/** Update the <time> elements inside a node. @param {ParentNode} root */
export function updateTimes(root) {
  const now = Date.now();
  for (const element of root.querySelectorAll("time[datetime]:not([data-absolute])")) {
    const at = Date.parse(element.getAttribute("datetime") ?? "");
    if (Number.isNaN(at)) continue;
    setText(element, relativeTime(at, now));
    if (!element.hasAttribute("data-exact")) {
      element.setAttribute("title", exactTime(at));
      element.setAttribute("data-exact", "");
    }
  }
}

/** Update all <time> elements of the page now and every five seconds. */
export function startTimeUpdates() {
  updateTimes(document);
  setInterval(() => updateTimes(document), UPDATE_MS);
}
