// @ts-check
// Asks the server to plan again under another policy, and shows the answer in place.
import { fetchPiece } from "../dom.js";

class WhatIf extends HTMLElement {
  connectedCallback() {
    this.addEventListener("submit", this.#onSubmit);
  }

  #onSubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const place = this.querySelector(".whatif-answer");
    const query = new URLSearchParams(/** @type {any} */ (new FormData(form)));
    place?.setAttribute("aria-busy", "true");
    const answer = await fetchPiece(`${form.action}?${query}`);
    if (answer) place?.replaceChildren(...answer);
    place?.removeAttribute("aria-busy");
  };
}
customElements.define("what-if", WhatIf);
