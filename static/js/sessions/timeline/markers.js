// @ts-check
// A button under each marker that the timeline has drawn: what one clicks, tabs to and hears. It shows only focus and choice.
import { h } from "../../dom.js";

/** @typedef {import("./layout.js").Marker} Marker */

/** What each button stands for. @type {WeakMap<Element, import("../store.js").Check>} */ const known = new WeakMap();

/** @param {HTMLElement} overlay @param {Marker[]} markers @param {number} selected the index of a check */
export function placeMarkers(overlay, markers, selected) {
  // Kept by number, so that focus stays where it is.
  const before = new Map([...overlay.children].map((child) => [child.getAttribute("data-number"), child]));
  for (const marker of markers) {
    const key = String(marker.number);
    const button = before.get(key) ?? overlay.appendChild(h("button", { type: "button", class: "compaction-marker", "data-testid": "compaction-marker", "data-number": key }));
    before.delete(key);
    if (button instanceof HTMLElement) place(button, marker, marker.index === selected);
  }
  for (const gone of before.values()) gone.remove();
}

/** @param {HTMLElement} button @param {Marker} marker @param {boolean} isSelected */
function place(button, marker, isSelected) {
  const { check } = marker;
  button.style.left = `${marker.middle - marker.pill / 2}px`;
  button.style.width = `${marker.pill}px`;
  button.setAttribute("aria-pressed", String(isSelected));
  // A check that comes late moves those behind it on.
  button.dataset.index = String(marker.index);
  if (known.get(button) === check) return;
  known.set(button, check);
  button.dataset.span = check.span;
  button.setAttribute("aria-label", `Compaction ${marker.number}: ${check.sentence}`);
}
