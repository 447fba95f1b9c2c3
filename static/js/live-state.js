// @ts-check
// Says, always in the same place, whether what is on the page is what is on the server.
import { counted } from "./format.js";

/** @type {Record<string, [string, string]>} */
const WORDS = {
  connecting: ["Connecting…", "warn"],
  live: ["Live", "good"],
  paused: ["Paused", "warn"],
  behind: ["Catching up…", "warn"],
  offline: ["Offline, retrying…", "bad"],
  refused: ["No access", "bad"],
};

class LiveState extends HTMLElement {
  #onState = (/** @type {Event} */ event) => {
    const { state, waiting } = /** @type {CustomEvent} */ (event).detail;
    const [words, tone] = WORDS[state] ?? ["Not live", ""];
    const text = waiting ? `${words}, ${counted(waiting, "event")} waiting` : words;
    const word = this.querySelector(".word");
    if (word && word.textContent !== text) word.textContent = text;
    this.title = text;
    this.dataset.state = state;
    this.querySelector(".dot")?.setAttribute("data-tone", tone);
  };

  connectedCallback() {
    this.setAttribute("role", "status");
    document.addEventListener("ariadne:live", this.#onState);
  }

  disconnectedCallback() {
    document.removeEventListener("ariadne:live", this.#onState);
  }
}
customElements.define("live-state", LiveState);
