// @ts-check
// <bookmark-star>: the star of a session or a compaction. Saves without leaving the page.
import { isSignedOut, parse, problem, toast } from "../dom.js";

class BookmarkStar extends HTMLElement {
  connectedCallback() {
    this.addEventListener("submit", this.#onSubmit);
  }

  #onSubmit = async (/** @type {SubmitEvent} */ event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    event.preventDefault();
    const hadFocus = this.contains(document.activeElement);
    try {
      const headers = { "X-Requested-With": "fragment" };
      const response = await fetch(form.action, { method: "POST", body: new FormData(form), headers });
      if (!response.ok || isSignedOut(response)) throw new Error(String(response.status));
      // Parsed elements are plain until they are on the page.
      const star = parse(await response.text()).find((node) => node.nodeName === "BOOKMARK-STAR");
      if (!star) throw new Error("no star");
      this.replaceChildren(...star.childNodes);
      const button = this.querySelector("button");
      if (hadFocus) button?.focus();
      toast(button?.getAttribute("aria-pressed") === "true" ? "Bookmarked" : "Bookmark removed");
    } catch {
      problem("Can't save the bookmark. Try again.");
    }
  };
}
customElements.define("bookmark-star", BookmarkStar);
