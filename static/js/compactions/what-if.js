// @ts-check
// <what-if>: replays a compaction when it becomes visible, then plans it again with other policies. Planning thousands of
// messages takes seconds, so a line shows the elapsed time and a button that cancels the request.
import { fetchFragment, h, setText } from "../dom.js";

class WhatIf extends HTMLElement {
  /** @type {AbortController | null} */ #request = null;
  #observer = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) void this.#replay();
  });

  connectedCallback() {
    this.addEventListener("submit", this.#onSubmit);
    this.querySelector("[data-action=replay]")?.addEventListener("click", () => this.#replay());
    this.#observer.observe(this);
  }

  disconnectedCallback() {
    this.#observer.disconnect();
    this.#request?.abort();
  }

  async #replay() {
    this.#observer.disconnect();
    const start = this.querySelector('[data-slot="start"]');
    const slot = this.querySelector('[data-slot="replay"]');
    if (start instanceof HTMLElement) start.hidden = true;
    const nodes = await this.#load(this.dataset.replay ?? "", slot, "Replaying…");
    if (nodes) slot?.replaceChildren(...nodes);
    else if (start instanceof HTMLElement) start.hidden = false;
  }

  #onSubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const result = this.querySelector(".whatif-answer");
    const query = new URLSearchParams(/** @type {any} */ (new FormData(form)));
    result?.setAttribute("aria-busy", "true");
    const nodes = await this.#load(`${form.action}?${query}`, form, "Planning…");
    if (nodes) result?.replaceChildren(...nodes);
    if (!this.#request) result?.removeAttribute("aria-busy");
  };

  /**
   * Load a fragment and show the progress after an element. Return null if the request failed, was canceled, or is not the
   * newest one.
   * @param {string} url
   * @param {Element | null} element
   * @param {string} label
   */
  async #load(url, element, label) {
    this.#request?.abort();
    const request = (this.#request = new AbortController());
    const progress = this.#progress(request, label);
    element?.after(progress);
    const nodes = await fetchFragment(url, request.signal);
    progress.remove();
    if (this.#request !== request) return null;
    this.#request = null;
    return nodes;
  }

  /** Return a line with the elapsed time and a button that cancels the request. @param {AbortController} request @param {string} label */
  #progress(request, label) {
    const text = h("span", {}, label);
    const cancel = h("button", { class: "button quiet", type: "button" }, "Cancel");
    cancel.addEventListener("click", () => request.abort());
    const bar = h("progress", { "aria-label": label });
    const line = h("p", { class: "whatif-progress pad soft small", role: "status" }, bar, " ", text, " ", cancel);
    const began = Date.now();
    const timer = setInterval(() => {
      if (!line.isConnected) clearInterval(timer);
      setText(text, `${label} ${Math.round((Date.now() - began) / 1000)} s`);
    }, 1000);
    return line;
  }
}
customElements.define("what-if", WhatIf);
