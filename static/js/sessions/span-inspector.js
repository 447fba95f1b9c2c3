// @ts-check
// <span-inspector>: shows the selected span, or the list of compactions. The server renders both.
import { fetchFragment, h, icon, isSignedOut, parse } from "../dom.js";
import { pluralize } from "../format.js";
import { updateTimes } from "../relative-times.js";
import { store } from "./store.js";

// Holding down an arrow key loads only the span it stops at.
const SELECT_DELAY_MS = 80;
const UPDATE_DELAY_MS = 150;
const RETRY_MS = 2000;

class SpanInspector extends HTMLElement {
  /** @type {(() => void)[]} */ #unsubscribe = [];
  #timer = 0;
  #shownKey = "";
  /** @type {AbortController | null} */ #request = null;
  #version = "";

  connectedCallback() {
    this.#unsubscribe = [
      store.subscribe("selected", () => this.#updateSoon(SELECT_DELAY_MS)),
      store.subscribe("spans", () => this.#onChange()),
      store.subscribe("checks", () => this.#onChange()),
    ];
    this.addEventListener("click", this.#onClick);
  }

  disconnectedCallback() {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    clearTimeout(this.#timer);
    this.#request?.abort();
  }

  /** @param {number} delayMs */
  #updateSoon(delayMs) {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#update(), delayMs);
  }

  /** Update if the shown span ended, or if the list of compactions changed. */
  #onChange() {
    if (!store.selected && store.checksSeq === null) return;
    const version = versionOf(store.selected);
    // The page was rendered with the list of compactions. Don't load the same list again.
    if (!this.#version && !store.selected && store.checksSeq === Number(this.dataset.seq)) this.#version = version;
    if (this.#version !== version) this.#updateSoon(UPDATE_DELAY_MS);
  }

  async #update() {
    const key = store.selected;
    const version = versionOf(key);
    // Abort the last request even if there is nothing to load: its span is no longer selected.
    this.#request?.abort();
    this.removeAttribute("aria-busy");
    if (version === this.#version && key === this.#shownKey) return;
    if (isTraceRow(key)) {
      this.#show(key, version, describeTrace(store.spans.findKey(key)));
      return;
    }
    this.#request = new AbortController();
    const url = `/sessions/${encodeURIComponent(this.dataset.session ?? "")}/inspector/${key ? `?span=${encodeURIComponent(key)}` : ""}`;
    this.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(url, { signal: this.#request.signal });
      const nodes = response.ok && !isSignedOut(response) ? parse(await response.text()) : ["Couldn't load this span."];
      this.#show(key, version, nodes);
      this.removeAttribute("aria-busy");
    } catch (error) {
      const isAborted = error instanceof DOMException && error.name === "AbortError";
      if (!isAborted) this.#updateSoon(RETRY_MS);
    }
  }

  /** @param {string} key @param {string} version @param {(Node | string)[]} nodes */
  #show(key, version, nodes) {
    const scrollTop = key === this.#shownKey ? (this.parentElement?.scrollTop ?? 0) : 0;
    const hadFocus = this.contains(document.activeElement);
    this.replaceChildren(...nodes);
    // Keep keyboard users inside the inspector.
    if (hadFocus) this.focus({ preventScroll: true });
    if (this.parentElement) this.parentElement.scrollTop = scrollTop;
    this.#shownKey = key;
    this.#version = version;
    updateTimes(this);
  }

  #onClick = async (/** @type {MouseEvent} */ event) => {
    const target = event.target instanceof Element ? event.target : null;
    const button = target?.closest("[data-action]");
    if (button?.getAttribute("data-action") === "overview") store.select("");
    if (button?.getAttribute("data-action") === "reveal") await this.#showPayload(button);
    const item = target?.closest("li[data-span]");
    if (item && !target?.closest("a")) store.select(item.getAttribute("data-span") ?? "");
  };

  /** @param {Element} button */
  async #showPayload(button) {
    const key = button.getAttribute("data-span") ?? "";
    const session = this.dataset.session ?? "";
    const payload = await fetchFragment(`/sessions/${encodeURIComponent(session)}/payload/?span=${encodeURIComponent(key)}`);
    if (payload) button.closest("section")?.replaceWith(...payload);
  }
}

/** Return a string that changes when the content for a selection changes. @param {string} key */
function versionOf(key) {
  if (key) {
    const at = store.spans.findKey(key);
    return `${key}:${store.spans.columns.end[at] ?? ""}:${store.spans.columns.status[at] ?? ""}`;
  }
  const listed = store.checks.filter((check) => check.is_compaction);
  return `compactions:${listed.map((check) => `${check.id}${check.is_running}${check.after}${check.facts_kept}`).join()}`;
}

/** Return true for a row that the tree added for a trace. The server has no span for it. @param {string} key */
function isTraceRow(key) {
  const at = store.spans.findKey(key);
  return at >= 0 && !store.spans.columns.id[at];
}

/** @param {number} at */
function describeTrace(at) {
  const { name, trace } = store.spans.columns;
  const close = h(
    "button",
    { class: "button quiet square end no-print", type: "button", "data-action": "overview", "aria-label": "Close", title: "Close (Esc)" },
    icon("close"),
  );
  const spanCount = (store.tree.size[at] ?? 1) - 1;
  return [
    h("div", { class: "inspect-head" }, icon("trace"), h("h2", { dir: "auto" }, name[at]), close),
    h(
      "div",
      { class: "inspect-body" },
      h("p", {}, `Trace with ${pluralize(spanCount, "span")}.`),
      h("p", { class: "mono faint small" }, trace[at]),
    ),
  ];
}

customElements.define("span-inspector", SpanInspector);
