// @ts-check
// Labels, icons and colors of span kinds. The server sends the table (viewer/kinds.py) as JSON with the page.

/** @typedef {{ label: string, icon: string, family: string }} Kind */

/** @type {Record<string, Kind>} */
const KINDS = JSON.parse(document.getElementById("span-kinds")?.textContent ?? "{}");

/** Return the row of a kind. A kind that is not in the table gets a default row. @param {string} name @returns {Kind} */
export function kindOf(name) {
  if (Object.hasOwn(KINDS, name)) return /** @type {Kind} */ (KINDS[name]);
  const label = name.replace(/^compact\./, "").replaceAll("_", " ");
  return name.startsWith("compact.") ? { label, icon: "compaction", family: "compaction" } : { label, icon: "span", family: "neutral" };
}

/**
 * Return the title of a span: its name, or the label of its kind for compaction events.
 * @param {string} kind
 * @param {string} name
 */
export function titleOf(kind, name) {
  return name && !(kind.startsWith("compact.") && name === kind) ? name : kindOf(kind).label || "span";
}
