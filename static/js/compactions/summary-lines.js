// @ts-check
// <summary-lines>: shows the messages that a line of the summary came from, and marks them in the ledger, while the
// pointer or the focus is on the line.
import { h } from "../dom.js";

/** @typedef {HTMLElement & { message(id: string): {position: number, id: string, role: string, preview: string} | null, markSources(ids: string[]): void }} Ledger */

class SummaryLines extends HTMLElement {
  /** @type {Element | null} */ #line = null;

  connectedCallback() {
    this.addEventListener("pointerover", this.#onLine);
    this.addEventListener("focusin", this.#onLine);
    this.addEventListener("pointerleave", () => this.#ledger?.markSources([]));
  }

  get #ledger() {
    const ledger = document.querySelector("fate-ledger");
    return ledger && "message" in ledger ? /** @type {Ledger} */ (ledger) : null;
  }

  #onLine = (/** @type {Event} */ event) => {
    const line = event.target instanceof Element ? event.target.closest("[data-sources]") : null;
    if (!(line instanceof HTMLElement)) return;
    const ids = (line.dataset.sources ?? "").split(" ");
    this.#ledger?.markSources(ids);
    if (line === this.#line) return;
    this.#line?.classList.remove("current");
    line.classList.add("current");
    this.#line = line;
    this.querySelector('[data-slot="sources"]')?.replaceChildren(...ids.map((id) => this.#source(id)));
  };

  /** @param {string} id */
  #source(id) {
    const message = this.#ledger?.message(id);
    if (!message) {
      const show = h("button", { class: "link", type: "button", "data-message": id }, "Show message");
      return h("div", { class: "line-source small soft" }, "A message that left the prompt in an earlier compaction. ", show);
    }
    return h("p", { class: "small" },
      h("a", { href: `#m-${id}` }, `#${message.position + 1} ${message.role}`), " ", h("span", { dir: "auto" }, message.preview));
  }
}
customElements.define("summary-lines", SummaryLines);
