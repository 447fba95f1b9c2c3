// @ts-check
// <live-state>: the connection status in the top bar.
import { setText } from "./dom.js";
import { pluralize } from "./format.js";

/** Label, tone and tooltip of each state. @type {Record<string, [string, string, string]>} */
const STATES = {
  connecting: ["Connecting…", "warn", "Connecting to the server"],
  live: ["Live", "good", "Updates appear as they happen"],
  paused: ["Paused", "warn", "Updates are paused. Press Space to resume."],
  behind: ["Catching up…", "warn", "Loading missed updates"],
  offline: ["Offline, retrying…", "bad", "Can't reach the server. Retrying…"],
  refused: ["No access", "bad", "You don't have permission to view these updates"],
};

class LiveState extends HTMLElement {
  #onState = (/** @type {Event} */ event) => {
    const { state, waiting } = /** @type {CustomEvent} */ (event).detail;
    const [label, tone, tooltip] = STATES[state] ?? ["Not live", "", ""];
    const word = this.querySelector(".word");
    if (word) setText(word, waiting ? `${label}, ${pluralize(waiting, "event")} waiting` : label);
    this.title = tooltip;
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
