// @ts-check
// A part of a page that takes the server longer: it comes when the page is there.
import { isSignedOut, parse } from "./dom.js";
import { localize } from "./relative-times.js";

class LazyFragment extends HTMLElement {
  async connectedCallback() {
    this.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(this.getAttribute("src") ?? "");
      this.replaceChildren(...(answer.ok && !isSignedOut(answer) ? parse(await answer.text()) : ["This part could not be read."]));
    } catch {
      this.replaceChildren("The server is away: load the page again.");
    }
    localize(this);
    this.removeAttribute("aria-busy");
  }
}
customElements.define("lazy-fragment", LazyFragment);
