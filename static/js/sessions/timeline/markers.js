// @ts-check
// Transparent buttons over the markers and events that the chart paints, for pointer, keyboard and screen readers.
import { h } from "../../dom.js";
import { EVENTS } from "./parts.js";

/** @typedef {import("./layout.js").Marker} Marker */

/** @param {HTMLElement} overlay @param {Marker[]} markers @param {number} selected index of the selected check */
export function placeMarkers(overlay, markers, selected) {
  // Reuse the buttons of checks to keep the focus.
  const unused = new Map([...overlay.querySelectorAll("[data-check]")].map((child) => [child.getAttribute("data-check"), child]));
  for (const marker of markers) {
    const key = marker.check.id;
    const button = unused.get(key) ?? overlay.appendChild(newButton(key));
    unused.delete(key);
    if (button instanceof HTMLElement) updateButton(button, marker, marker.index === selected);
  }
  for (const button of unused.values()) button.remove();
}

/** @param {string} check */
function newButton(check) {
  return h("button", { type: "button", class: "compaction-marker", "data-testid": "compaction-marker", "data-check": check });
}

/** @param {HTMLElement} button @param {Marker} marker @param {boolean} isSelected */
function updateButton(button, marker, isSelected) {
  const { check, count } = marker;
  button.style.left = `${marker.middle - marker.pill / 2}px`;
  button.style.width = `${marker.pill}px`;
  button.setAttribute("aria-pressed", String(isSelected));
  // A check that arrives late shifts the indexes of later ones.
  button.dataset.index = String(marker.index);
  button.dataset.span = check.span;
  const title = marker.number ? `Compaction ${marker.number}: ${check.sentence}` : check.sentence;
  const label = count > 1 ? `${count} compactions: ${marker.text.replace("–", " to ")}. Select to zoom in.` : title;
  if (button.getAttribute("aria-label") !== label) button.setAttribute("aria-label", label);
}

/** @param {HTMLElement} overlay @param {import("./layout.js").LaneMark[]} marks @param {number} y */
export function placeEvents(overlay, marks, y) {
  const buttons = [...overlay.querySelectorAll(".timeline-event")];
  marks.forEach((mark, i) => {
    const button = buttons[i] ?? overlay.appendChild(h("button", { type: "button", class: "timeline-event", "data-testid": "timeline-event" }));
    if (button instanceof HTMLElement) updateEvent(button, mark, i, y);
  });
  for (const button of buttons.slice(marks.length)) button.remove();
}

/** @param {HTMLElement} button @param {import("./layout.js").LaneMark} mark @param {number} number @param {number} y */
function updateEvent(button, mark, number, y) {
  const worst = mark.events.find((event) => event.kind === mark.kind);
  const others = mark.events.length > 1 ? ` and ${mark.events.length - 1} more` : "";
  button.style.left = `${mark.x - 9}px`;
  button.style.top = `${y - 9}px`;
  button.dataset.mark = String(number);
  button.dataset.index = String(mark.index);
  button.dataset.kind = mark.kind;
  button.dataset.span = worst?.span ?? "";
  const label = `${EVENTS[mark.kind].label}: ${worst?.text ?? ""}${others}`;
  if (button.getAttribute("aria-label") !== label) button.setAttribute("aria-label", label);
}
