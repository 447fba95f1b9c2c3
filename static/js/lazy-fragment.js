// @ts-check
// <lazy-fragment src="…">: a slow part of a page, loaded after the page itself.
import { afterPaint, isSignedOut, parse } from "./dom.js";
import { updateTimes } from "./relative-times.js";

class LazyFragment extends HTMLElement {
  async connectedCallback() {
    this.setAttribute("aria-busy", "true");
    await afterPaint();
    this.replaceChildren(...(await this.#load()));
    updateTimes(this);
    this.removeAttribute("aria-busy");
  }

  /** @returns {Promise<(Node | string)[]>} */
  async #load() {
    try {
      const response = await fetch(this.getAttribute("src") ?? "");
      if (response.ok && !isSignedOut(response)) return parse(await response.text());
      return ["Couldn't load this section. Reload the page to try again."];
    } catch {
      return ["Can't reach the server. Reload the page to try again."];
    }
  }
}
customElements.define("lazy-fragment", LazyFragment);
