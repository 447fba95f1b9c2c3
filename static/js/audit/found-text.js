// @ts-check
// <found-text data-term="…">: highlights a search term in a conversation, opens the folded parts that contain it, and copies
// the hash of a message.
import { copy } from "../dom.js";

class FoundText extends HTMLElement {
  connectedCallback() {
    this.addEventListener("click", (event) => {
      const chip = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
      if (chip instanceof HTMLElement) void copy(chip.dataset.copy ?? "");
    });
    const ranges = this.#find((this.dataset.term ?? "").toLowerCase());
    // Browsers without the highlight API show the messages that contain the term, without marks.
    if ("highlights" in CSS && ranges.length) CSS.highlights.set("found-text", new Highlight(...ranges));
  }

  /** @param {string} term @returns {Range[]} */
  #find(term) {
    if (!term) return [];
    const ranges = [];
    const walker = document.createTreeWalker(this, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = (node.nodeValue ?? "").toLowerCase();
      for (let at = text.indexOf(term); at >= 0; at = text.indexOf(term, at + term.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, Math.min(at + term.length, node.nodeValue?.length ?? 0));
        ranges.push(range);
        node.parentElement?.closest("details")?.setAttribute("open", "");
      }
    }
    return ranges;
  }
}
customElements.define("found-text", FoundText);
