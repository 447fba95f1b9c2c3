// @ts-check
// Shows the selected span. The server renders it; this fetches, keeps and places it.
import { fetchPiece, h, icon, isSignedOut, parse } from "../dom.js";
import { counted } from "../format.js";
import { store } from "./store.js";
import { localize } from "../relative-times.js";

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
    // What was asked for is no longer wanted, even if what is wanted now is what is shown.
    this.#asking?.abort();
    this.removeAttribute("aria-busy");
    if (version === this.#version && key === this.#shown) return;
    if (this.#isTrace(key)) {
      this.#place(key, version, traceWords(store.spans.findKey(key)));
      return;
    }
    this.#asking = new AbortController();
    const url = `/sessions/${encodeURIComponent(this.dataset.session ?? "")}/inspector/${key ? `?span=${encodeURIComponent(key)}` : ""}`;
    this.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(url, { signal: this.#asking.signal });
      const nodes = answer.ok && !isSignedOut(answer) ? parse(await answer.text()) : ["This span could not be read."];
      this.#place(key, version, nodes);
      this.removeAttribute("aria-busy");
    } catch (error) {
      // Another choice was made meanwhile, or the server is away: then the same is asked for again in a while.
      if (!(error instanceof DOMException && error.name === "AbortError")) this.#soon(RETRY_MS);
    }
  }

  /** Whether this is a row that the tree has made for a trace; the server has no span of that name. @param {string} key */
  #isTrace(key) {
    const at = store.spans.findKey(key);
    return at >= 0 && !store.spans.columns.id[at];
  }

  /** @param {string} key @param {string} version @param {(Node | string)[]} nodes */
  #place(key, version, nodes) {
    const top = key === this.#shown ? (this.parentElement?.scrollTop ?? 0) : 0;
    const hadFocus = this.contains(document.activeElement);
    this.replaceChildren(...nodes);
    // Who was in here with the keyboard stays in here.
    if (hadFocus) this.focus({ preventScroll: true });
    if (this.parentElement) this.parentElement.scrollTop = top;
    this.#shown = key;
    this.#version = version;
    localize(this);
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

/** @param {number} at */
function traceWords(at) {
  const { name, trace } = store.spans.columns;
  const close = h("button", { class: "button quiet square end no-print", type: "button", "data-action": "overview", "aria-label": "Back to the overview", title: "Back to the overview (Esc)" }, icon("close"));
  return [
    h("div", { class: "inspect-head" }, icon("trace"), h("h2", { dir: "auto" }, name[at]), close),
    h("div", { class: "inspect-body" }, h("p", {}, `A trace of ${counted((store.tree.size[at] ?? 1) - 1, "span")}.`), h("p", { class: "mono faint small" }, trace[at])),
  ];
}

customElements.define("span-inspector", SpanInspector);
