// @ts-check
// What a kind of span looks like; viewer/templatetags/ariadne.py has the same table.

/** @type {Record<string, string>} */
const ICONS = {
  "compact.check": "check",
  "compact.token_estimate": "estimate",
  "compact.trigger_decision": "decision",
  "compact.summary_created": "summary",
  "compact.pruned_messages": "pruned",
  "compact.archival": "archival",
  "compact.retention": "retention",
  "compact.error": "error",
  "compact.warning": "error",
};
const PLAIN = new Set(["trace", "agent", "turn", "generation", "tool", "handoff", "guardrail", "task", "retrieval", "embedding"]);

/** @param {string} kind */
export function iconOf(kind) {
  if (ICONS[kind]) return ICONS[kind];
  if (kind.startsWith("compact.")) return "compaction";
  return PLAIN.has(kind) ? kind : "span";
}

/** The family that gives a row its colour. @param {string} kind */
export function familyOf(kind) {
  if (kind === "compact.error" || kind === "compact.warning") return "trouble";
  if (kind === "compact.summary_created") return "summary";
  if (kind.startsWith("compact.")) return "compaction";
  return PLAIN.has(kind) ? kind : "span";
}

/** @param {string} kind */
function labelOf(kind) {
  return kind.replace(/^compact\./, "").replaceAll("_", " ");
}

/** What a span is called on the page: its name, but the words of a kind for ours. @param {string} kind @param {string} name */
export function titleOf(kind, name) {
  return name && !(kind.startsWith("compact.") && name === kind) ? name : labelOf(kind) || "span";
}
