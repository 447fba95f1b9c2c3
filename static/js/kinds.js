// @ts-check
// Labels, icons and colors of span kinds. The server sends the table (viewer/kinds.py) as JSON with the page.

/**
 * `lane` is the mark of an event below the timeline. The traits are described in the table.
 * @typedef {"" | "error" | "overflow" | "warning" | "recall"} Lane
 * @typedef {"every-check" | "starts-check" | "shrinks-prompt" | "has-line"} Trait
 * @typedef {{ label: string, icon: string, family: string, lane: Lane, traits: Trait[] }} Kind
 */

// A map, because agents name kinds: `constructor` and `__proto__` must not be found in it. Pure modules are tested without a page.
const TABLE = globalThis.document?.getElementById("span-kinds")?.textContent ?? "{}";
/** @type {Map<string, Kind>} */ const KINDS = new Map(Object.entries(JSON.parse(TABLE)));

/** Return the row of a kind. A kind that is not in the table gets a default row. @param {string} name @returns {Kind} */
export function kindOf(name) {
  const kind = KINDS.get(name);
  if (kind) return kind;
  const unknown = { label: name.replace(/^compact\./, "").replaceAll("_", " "), lane: /** @type {Lane} */ (""), traits: [] };
  return name.startsWith("compact.")
    ? { ...unknown, icon: "compaction", family: "compaction" }
    : { ...unknown, icon: "span", family: "neutral" };
}

/** Return the names of the kinds with a trait. @param {Trait} trait @returns {Set<string>} */
export function kindsWith(trait) {
  return new Set([...KINDS].filter(([, kind]) => kind.traits.includes(trait)).map(([name]) => name));
}

/**
 * Return the title of a span: its name, or the label of its kind for compaction events.
 * @param {string} kind
 * @param {string} name
 */
export function titleOf(kind, name) {
  return name && !(kind.startsWith("compact.") && name === kind) ? name : kindOf(kind).label || "span";
}
