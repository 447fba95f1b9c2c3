// @ts-check
// <json-view>: adds search, copy and download to a block of JSON or text.
import { copy, download, h, icon } from "./dom.js";

// The browser takes seconds to lay out a one-megabyte line. Chunks with `content-visibility` are laid out when visible.
const CHUNK_CHARS = 4_000;
// Highlights are limited. The count of matches is not.
const MAX_HIGHLIGHTS = 1_000;

class JsonView extends HTMLElement {
  connectedCallback() {
    const heading = this.querySelector("h3");
    const code = this.querySelector("code");
    if (!heading || !code || this.querySelector(".json-tools")) return;
    const text = code.textContent ?? "";
    const buttons = [copyButton(text), downloadButton(text, `${this.dataset.name ?? "data"}.json`)];
    heading.after(h("div", { class: "json-tools no-print" }, ...searchControls(code, text), ...buttons));
    code.replaceChildren(...chunks(text, [], 0));
  }
}
customElements.define("json-view", JsonView);

/** @param {HTMLElement} code @param {string} text */
function searchControls(code, text) {
  const field = h("input", { class: "field", type: "search", placeholder: "Search data…", "aria-label": "Search data" });
  const count = h("span", { class: "faint small", role: "status" });
  let current = 0;
  const goTo = (/** @type {number} */ index) => {
    const marks = code.querySelectorAll("mark");
    marks[current]?.removeAttribute("aria-current");
    current = marks.length ? (index + marks.length) % marks.length : 0;
    marks[current]?.setAttribute("aria-current", "true");
    marks[current]?.scrollIntoView({ block: "nearest" });
  };
  field.addEventListener("input", () => {
    const matches = findMatches(text, field.value);
    count.textContent = !field.value ? "" : matches.length ? `${matches.length} found` : "No matches";
    code.replaceChildren(...chunks(text, matches.slice(0, MAX_HIGHLIGHTS), field.value.length));
    goTo(0);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    goTo(current + (event.shiftKey ? -1 : 1));
  });
  return [field, count];
}

/** @param {string} text */
function copyButton(text) {
  const button = iconButton("copy", "Copy");
  button.addEventListener("click", () => copy(text));
  return button;
}

/** @param {string} name @param {string} label */
function iconButton(name, label) {
  return h("button", { class: "button quiet square", type: "button", "aria-label": label, title: label }, icon(name));
}

/** @param {string} text @param {string} name */
function downloadButton(text, name) {
  const button = iconButton("download", "Download");
  button.addEventListener("click", () => download(name, new Blob([text], { type: "application/json" })));
  return button;
}

/** Return the positions of a search term, ignoring case. @param {string} text @param {string} term */
function findMatches(text, term) {
  const [haystack, needle] = [toLowerCase(text), toLowerCase(term)];
  const matches = [];
  if (needle) for (let at = haystack.indexOf(needle); at >= 0; at = haystack.indexOf(needle, at + needle.length)) matches.push(at);
  return matches;
}

/**
 * Convert to lower case without changing the length: "İ" is the only letter whose lower case is longer.
 * @param {string} text
 */
function toLowerCase(text) {
  return text.replaceAll("İ", "i").toLowerCase();
}

/**
 * Split text into elements of about CHUNK_CHARS with the matches highlighted.
 * @param {string} text
 * @param {number[]} matches positions in ascending order
 * @param {number} length of each match
 */
function chunks(text, matches, length) {
  const elements = [];
  let next = 0;
  for (let from = 0; from < text.length; ) {
    const end = chunkEnd(text, from);
    const chunk = h("span", { class: "chunk" });
    for (let match = matches[next]; match !== undefined && match < end; match = matches[++next]) {
      chunk.append(text.slice(from, match), h("mark", {}, text.slice(match, match + length)));
      from = match + length;
    }
    const to = Math.max(from, end);
    chunk.append(text.slice(from, to));
    elements.push(chunk);
    from = to;
  }
  return elements;
}

/**
 * Return the end of a chunk: after a line break if there is one, and never inside a surrogate pair.
 * @param {string} text
 * @param {number} from
 */
function chunkEnd(text, from) {
  const lineBreak = text.lastIndexOf("\n", from + CHUNK_CHARS);
  if (lineBreak > from) return lineBreak + 1;
  const end = from + CHUNK_CHARS;
  return /[\ud800-\udbff]/.test(text[end - 1] ?? "") ? end - 1 : end;
}
