// @ts-check
// Raw JSON with search, copy and download. The text is the server's; this only adds the tools.
import { copy, download, h, icon } from "./dom.js";

// To lay out a line of a megabyte takes seconds: long texts are drawn in pieces, and those out of sight not at all.
const PIECE_CHARS = 4_000;
// More marks than anyone reads; the count goes on.
const MAX_MARKS = 1_000;

class JsonView extends HTMLElement {
  connectedCallback() {
    const heading = this.querySelector("h3");
    const code = this.querySelector("code");
    if (!heading || !code || this.querySelector(".json-tools")) return;
    const text = code.textContent ?? "";
    const field = h("input", { class: "field", type: "search", placeholder: "Search the data…", "aria-label": "Search the data" });
    const count = h("span", { class: "faint small", role: "status" });
    field.addEventListener("input", () => {
      const places = placesOf(text, field.value);
      count.textContent = !field.value ? "" : places.length ? `${places.length} found` : "none";
      code.replaceChildren(...pieces(text, places.slice(0, MAX_MARKS), field.value.length));
      show(0);
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      show(at + (event.shiftKey ? -1 : 1));
    });
    let at = 0;
    const show = (/** @type {number} */ wanted) => {
      const marks = code.querySelectorAll("mark");
      marks[at]?.removeAttribute("aria-current");
      at = marks.length ? (wanted + marks.length) % marks.length : 0;
      marks[at]?.setAttribute("aria-current", "true");
      marks[at]?.scrollIntoView({ block: "nearest" });
    };
    const copyButton = h("button", { class: "button quiet square", type: "button", "aria-label": "Copy the JSON", title: "Copy" }, icon("copy"));
    copyButton.addEventListener("click", () => copy(text));
    const save = h("button", { class: "button quiet square", type: "button", "aria-label": "Download the JSON", title: "Download" }, icon("download"));
    save.addEventListener("click", () => download(`${this.dataset.name ?? "data"}.json`, new Blob([text], { type: "application/json" })));
    heading.after(h("div", { class: "json-tools no-print" }, field, count, copyButton, save));
    code.replaceChildren(...pieces(text, [], 0));
  }
}
customElements.define("json-view", JsonView);

/** Where a text is found in another, upper or lower case. @param {string} text @param {string} wanted */
function placesOf(text, wanted) {
  const [lower, needle] = [lowered(text), lowered(wanted)];
  const found = [];
  if (needle) for (let at = lower.indexOf(needle); at >= 0; at = lower.indexOf(needle, at + needle.length)) found.push(at);
  return found;
}

/** As long as it was: İ is the one letter whose small form is two. @param {string} text */
function lowered(text) {
  return text.replaceAll("İ", "i").toLowerCase();
}

/** @param {string} text @param {number[]} places of marks, in order @param {number} length of each */
function pieces(text, places, length) {
  const made = [];
  let next = 0;
  for (let from = 0; from < text.length; ) {
    // At the end of a line if there is one, else in the middle of it.
    const line = text.lastIndexOf("\n", from + PIECE_CHARS);
    const cut = from + PIECE_CHARS;
    const isInsideLetter = /[\ud800-\udbff]/.test(text[cut - 1] ?? "");
    const end = line > from ? line + 1 : cut - Number(isInsideLetter);
    const piece = h("span", { class: "piece" });
    for (let place = places[next]; place !== undefined && place < end; place = places[++next]) {
      piece.append(text.slice(from, place), h("mark", {}, text.slice(place, place + length)));
      from = place + length;
    }
    const to = Math.max(from, end);
    piece.append(text.slice(from, to));
    made.push(piece);
    from = to;
  }
  return made;
}
