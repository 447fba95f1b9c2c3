// @ts-check
// Keyboard navigation of pages with rows: j and k move between rows, c and Shift c between compactions.

const ROWS = '[data-testid$="-row"]';

/** Handle a key of a page with rows. Returns true if it did something. @param {KeyboardEvent} event */
export function moveByKey(event) {
  const key = event.key.toLowerCase();
  // The span tree has its own keys.
  if (document.querySelector("span-tree")) return false;
  // The tail has rows only for the events on the screen, and knows the others.
  const tail = /** @type {import("./live/event-tail.js").EventTail | null} */ (document.querySelector("event-tail"));
  if (tail && "jkc".includes(key)) return tail.moveFocus(key === "k" || (key === "c" && event.shiftKey) ? -1 : 1, key === "c");
  if (key === "j" || key === "k") return focusRow(visibleRows(), key === "j" ? 1 : -1);
  if (key !== "c") return false;
  const link = document.querySelector(event.shiftKey ? "main a[rel=prev]" : "main a[rel=next]");
  if (link instanceof HTMLElement) {
    link.click();
    return true;
  }
  return focusRow(visibleRows().filter(hasCompaction), event.shiftKey ? -1 : 1);
}

/** @returns {HTMLElement[]} */
function visibleRows() {
  return [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(ROWS))].filter((row) => row.offsetParent !== null);
}

/** @param {HTMLElement} row */
function hasCompaction(row) {
  return row.querySelector(".compactions") !== null;
}

/** Focus the next or previous row, or the first. @param {HTMLElement[]} rows in order @param {number} step */
function focusRow(rows, step) {
  if (!rows.length) return false;
  const focused = document.activeElement;
  let index = rows.findIndex((row) => row.contains(focused));
  // Between the rows of a list of some rows, continue from the position of the focus.
  if (index < 0 && focused && focused !== document.body) {
    const next = rows.findIndex((row) => focused.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING);
    if (next >= 0) index = step > 0 ? next - 1 : next;
  }
  const row = rows[Math.max(0, Math.min(rows.length - 1, index < 0 && step < 0 ? 0 : index + step))];
  if (!row) return false;
  const target = row.matches("a, button, [tabindex]") ? row : row.querySelector("a, button, summary");
  if (target instanceof HTMLElement) target.focus();
  else {
    row.tabIndex = -1;
    row.focus();
  }
  row.scrollIntoView({ block: "nearest" });
  return true;
}
