// @ts-check
// <what-if>: plans a compaction again with another policy and shows the result below the form.
import { fetchFragment } from "../dom.js";

class WhatIf extends HTMLElement {
  connectedCallback() {
    this.addEventListener("submit", this.#onSubmit);
  }

  #onSubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const result = this.querySelector(".whatif-answer");
    const query = new URLSearchParams(/** @type {any} */ (new FormData(form)));
    result?.setAttribute("aria-busy", "true");
    const nodes = await fetchFragment(`${form.action}?${query}`);
    if (nodes) result?.replaceChildren(...nodes);
    result?.removeAttribute("aria-busy");
  };
}
customElements.define("what-if", WhatIf);
