// @ts-check
// Shows the selected span. The server renders it; this fetches, keeps and places it.
import { fetchPiece, parse } from "./dom.js";
import { store } from "./store.js";
import { localize } from "./times.js";

// Long enough that holding an arrow key down asks for one span and not for fifty.
const SETTLE_MS = 80;
const RETRY_MS = 2000;

class SpanInspector extends HTMLElement {
  /** @type {(() => void)[]} */ #undo = [];
  #timer = 0;
  #shown = "";
  /** @type {AbortController | null} */ #asking = null;
  #version = "";

  connectedCallback() {
    this.#undo = [store.subscribe("selected", () => this.#soon(SETTLE_MS)), store.subscribe("spans", () => this.#changed()), store.subscribe("checks", () => this.#changed())];
    this.addEventListener("click", this.#onClick);
  }

  disconnectedCallback() {
    for (const undo of this.#undo) undo();
    clearTimeout(this.#timer);
    this.#asking?.abort();
  }

  /** @param {number} wait */
  #soon(wait) {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#show(), wait);
  }

  /** A running span that was completed, or a compaction that came, changes what is shown. */
  #changed() {
    if (!store.selected && store.checksSeq === null) return;
    const version = this.#versionOf(store.selected);
    // The page came with an overview; it is asked for again only if something happened since.
    if (!this.#version && !store.selected && store.checksSeq === Number(this.dataset.seq)) this.#version = version;
    if (this.#version !== version) this.#soon(150);
  }

  /** @param {string} key */
  #versionOf(key) {
    if (!key) return `overview:${store.checks.filter((check) => check.is_compaction || check.is_recovery).map((check) => `${check.id}${check.is_running}${check.after}${check.retention}`).join()}`;
    const at = store.spans.findKey(key);
    return `${key}:${store.spans.columns.end[at] ?? ""}:${store.spans.columns.status[at] ?? ""}`;
  }

  async #show() {
    const key = store.selected;
    const version = this.#versionOf(key);
    if (version === this.#version && key === this.#shown) return;
    this.#asking?.abort();
    this.#asking = new AbortController();
    const url = `/sessions/${encodeURIComponent(this.dataset.session ?? "")}/inspector/${key ? `?span=${encodeURIComponent(key)}` : ""}`;
    this.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(url, { signal: this.#asking.signal });
      const nodes = answer.ok ? parse(await answer.text()) : [document.createTextNode("This span could not be read.")];
      const top = key === this.#shown ? (this.parentElement?.scrollTop ?? 0) : 0;
      this.replaceChildren(...nodes);
      if (this.parentElement) this.parentElement.scrollTop = top;
      this.#shown = key;
      this.#version = version;
      localize(this);
      this.removeAttribute("aria-busy");
    } catch (error) {
      // Another choice was made meanwhile, or the server is away: then the same is asked for again in a while.
      if (!(error instanceof DOMException && error.name === "AbortError")) this.#soon(RETRY_MS);
    }
  }

  #onClick = async (/** @type {MouseEvent} */ event) => {
    const target = event.target instanceof Element ? event.target : null;
    const action = target?.closest("[data-action]");
    if (action?.getAttribute("data-action") === "overview") store.select("");
    if (action?.getAttribute("data-action") === "reveal") await this.#reveal(action);
    const item = target?.closest("li[data-span]");
    if (item && !target?.closest("a")) store.select(item.getAttribute("data-span") ?? "");
  };

  /** @param {Element} button */
  async #reveal(button) {
    const key = button.getAttribute("data-span") ?? "";
    const session = this.dataset.session ?? "";
    const payload = await fetchPiece(`/sessions/${encodeURIComponent(session)}/payload/?span=${encodeURIComponent(key)}`);
    if (payload) button.closest("section")?.replaceWith(...payload);
  }
}

customElements.define("span-inspector", SpanInspector);
