// @ts-check
// <what-if>: plans a compaction again with another policy and shows the result below the form. Planning thousands of
// messages takes seconds, so the form shows the elapsed time and a button that cancels the request.
import { fetchFragment, h, setText } from "../dom.js";

class WhatIf extends HTMLElement {
  /** @type {AbortController | null} */ #request = null;

  connectedCallback() {
    this.addEventListener("submit", this.#onSubmit);
  }

  disconnectedCallback() {
    this.#request?.abort();
  }

  #onSubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const result = this.querySelector(".whatif-answer");
    const query = new URLSearchParams(/** @type {any} */ (new FormData(form)));
    this.#request?.abort();
    const request = (this.#request = new AbortController());
    const progress = this.#progress(request);
    form.after(progress);
    result?.setAttribute("aria-busy", "true");
    const nodes = await fetchFragment(`${form.action}?${query}`, request.signal);
    progress.remove();
    // A newer request may be running.
    if (this.#request !== request) return;
    if (nodes) result?.replaceChildren(...nodes);
    result?.removeAttribute("aria-busy");
  };

  /** Return a line with the elapsed time and a button that cancels the request. @param {AbortController} request */
  #progress(request) {
    const text = h("span", {}, "Planning…");
    const cancel = h("button", { class: "button quiet", type: "button" }, "Cancel");
    cancel.addEventListener("click", () => request.abort());
    const line = h("p", { class: "whatif-progress pad soft small", role: "status" }, h("progress", {}), " ", text, " ", cancel);
    const began = Date.now();
    const timer = setInterval(() => {
      if (!line.isConnected) clearInterval(timer);
      setText(text, `Planning… ${Math.round((Date.now() - began) / 1000)} s`);
    }, 1000);
    return line;
  }
}
customElements.define("what-if", WhatIf);
