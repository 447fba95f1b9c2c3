// @ts-check
// Parts of a page that the server renders, again and again while the page is open: elements with `data-live`. A live update
// only triggers a request, so that texts, filters and permissions have one place.
import { isSignedOut, parse } from "./dom.js";
import { updateTimes } from "./relative-times.js";

export class LiveParts {
  #timer = 0;
  #lastRefresh = 0;
  /** The parts as the server sent them last. @type {Map<string, string>} */ #sent = new Map();

  /**
   * @param {string} fragment name of the fragment in the address of this page
   * @param {number} waitMs minimum time between two requests
   * @param {(html: string) => void} [show]
   */
  constructor(fragment, waitMs, show) {
    this.fragment = fragment;
    this.waitMs = waitMs;
    this.show = show ?? ((html) => this.replace(html));
  }

  refreshSoon() {
    if (this.#timer) return;
    const wait = Math.max(0, this.#lastRefresh + this.waitMs - performance.now());
    this.#timer = window.setTimeout(() => this.#refresh(), wait);
  }

  stop() {
    clearTimeout(this.#timer);
  }

  async #refresh() {
    const url = new URL(location.href);
    url.searchParams.set("fragment", this.fragment);
    try {
      const response = await fetch(url);
      if (response.ok && !isSignedOut(response)) this.show(await response.text());
    } catch {
      // The server is unreachable. The connection status shows it, and reconnecting triggers the next refresh.
    } finally {
      this.#lastRefresh = performance.now();
      this.#timer = 0;
    }
  }

  /** Replace the parts that changed. @param {string} html */
  replace(html) {
    for (const part of parse(html)) {
      if (!(part instanceof HTMLElement)) continue;
      const name = part.dataset.live ?? "";
      const old = document.querySelector(`[data-live="${name}"]`);
      // Replacing links would take the keyboard focus away from them, and replacing text the selection.
      if (!old || old.contains(document.activeElement) || this.#sent.get(name) === part.outerHTML) continue;
      this.#sent.set(name, part.outerHTML);
      old.replaceWith(part);
      updateTimes(part);
    }
  }
}
