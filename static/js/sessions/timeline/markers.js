// @ts-check
// Transparent buttons over the markers that the timeline paints, for pointer, keyboard and screen readers.
import { h } from "../../dom.js";

/** @typedef {import("./layout.js").Marker} Marker */

/** The check of each button. @type {WeakMap<Element, import("../store.js").Check>} */
const checks = new WeakMap();

/** @param {HTMLElement} overlay @param {Marker[]} markers @param {number} selected index of the selected check */
export function placeMarkers(overlay, markers, selected) {
  // Reuse buttons by number to keep the focus.
  const unused = new Map([...overlay.children].map((child) => [child.getAttribute("data-number"), child]));
  for (const marker of markers) {
    const key = String(marker.number);
    const button = unused.get(key) ?? overlay.appendChild(newButton(key));
    unused.delete(key);
    if (button instanceof HTMLElement) updateButton(button, marker, marker.index === selected);
  }
  for (const button of unused.values()) button.remove();
}

/** @param {string} number */
function newButton(number) {
  return h("button", { type: "button", class: "compaction-marker", "data-testid": "compaction-marker", "data-number": number });
}

/** @param {HTMLElement} button @param {Marker} marker @param {boolean} isSelected */
function updateButton(button, marker, isSelected) {
  const { check } = marker;
  button.style.left = `${marker.middle - marker.pill / 2}px`;
  button.style.width = `${marker.pill}px`;
  button.setAttribute("aria-pressed", String(isSelected));
  // A check that arrives late shifts the indexes of later ones.
  button.dataset.index = String(marker.index);
  if (checks.get(button) === check) return;
  checks.set(button, check);
  button.dataset.span = check.span;
  button.setAttribute("aria-label", `Compaction ${marker.number}: ${check.sentence}`);
}
