// @ts-check
// The buttons above the timeline, one a compaction. Elements stay between two draws, so that focus does too.
import { h, setText } from "./dom.js";
import { resultOf } from "./store.js";

/** @typedef {import("./timeline-layout.js").Marker} Marker */

// Less than this and the words would run into the next marker.
const WORDS_PX = 112;
/** What each button says. @type {WeakMap<Element, { check: import("./store.js").Check, isSelected: boolean }>} */ const shown = new WeakMap();

/** @param {HTMLElement} overlay @param {Marker[]} markers @param {number} selected the index of a check */
export function drawMarkers(overlay, markers, selected) {
  const known = new Map([...overlay.children].map((child) => [child.getAttribute("data-number"), child]));
  for (const marker of markers) {
    const key = String(marker.number);
    const button = known.get(key) ?? overlay.appendChild(newMarker(key));
    known.delete(key);
    if (button instanceof HTMLElement) show(button, marker, marker.index === selected);
  }
  for (const gone of known.values()) gone.remove();
}

/** @param {string} key */
function newMarker(key) {
  return h("button", { type: "button", class: "compaction-marker", "data-testid": "compaction-marker", "data-number": key }, h("span", { class: "marker-n" }, key), h("span", { class: "marker-words" }));
}

/** @param {HTMLElement} button @param {Marker} marker @param {boolean} isSelected */
function show(button, marker, isSelected) {
  const { check } = marker;
  button.style.transform = `translateX(${marker.x + marker.width / 2}px)`;
  const words = button.lastElementChild;
  if (words) setText(words, marker.room > WORDS_PX ? resultOf(check) : "");
  // While one zooms only places change.
  const before = shown.get(button);
  if (before?.check === check && before.isSelected === isSelected) return;
  shown.set(button, { check, isSelected });
  button.dataset.span = check.span;
  button.dataset.index = String(marker.index);
  button.dataset.tone = check.has_failed ? "bad" : check.fallback ? "warn" : check.is_running ? "running" : "";
  button.setAttribute("aria-pressed", String(isSelected));
  button.setAttribute("aria-label", `Compaction ${marker.number}: ${check.sentence}`);
}
