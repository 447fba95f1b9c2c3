// @ts-check
// Show every <time> relative to now, with the exact local time as its tooltip.
import { setText } from "./dom.js";
import { coarseDuration, exactTime, relativeTime } from "./format.js";

const UPDATE_MS = 5000;
// The same limit as in viewer/templatetags/ariadne.py.
const SILENT_MS = 5 * 60_000;

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
  updateRunning(root);
}

/** Say how long a running session has been silent. Its last events may have been lost. @param {ParentNode} root */
function updateRunning(root) {
  const now = Date.now();
  for (const element of root.querySelectorAll(".running[data-last]")) {
    const at = Date.parse(element.getAttribute("data-last") ?? "");
    const isSilent = now - at >= SILENT_MS;
    element.toggleAttribute("data-silent", isSilent);
    const label = isSilent ? `No events for ${coarseDuration(Math.round((now - at) / 1000))}` : "Running";
    element.setAttribute("title", label);
    if (element.lastElementChild) setText(element.lastElementChild, label);
  }
}

/** Update all <time> elements of the page now and every five seconds. */
export function startTimeUpdates() {
  updateTimes(document);
  setInterval(() => updateTimes(document), UPDATE_MS);
}
