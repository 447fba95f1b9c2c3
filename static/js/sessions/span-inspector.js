// @ts-check
// <span-inspector>: shows the selected span, or the list of compactions. The server renders both. On a phone it is a sheet
// that opens when the reader selects something.
import "../lazy-fragment.js";
import "../tab-set.js";
import { h, icon, isSignedOut, parse, problem } from "../dom.js";
import { pluralize } from "../format.js";
import { titleOf } from "../kinds.js";
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
    this.addEventListener("submit", this.#onSubmit);
    this.addEventListener("tab", (event) => store.setView({ tab: String(/** @type {CustomEvent} */ (event).detail) }));
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
      const nodes = response.ok && !isSignedOut(response) ? parse(await response.text()) : describeFailure(key, failureOf(response));
      this.#show(key, version, nodes);
      this.removeAttribute("aria-busy");
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return;
      // The old span must not stay under the new selection.
      if (key !== this.#shownKey) this.#show(key, "", describeFailure(key, "Can't reach the server. Retrying…"));
      this.removeAttribute("aria-busy");
      this.#updateSoon(RETRY_MS);
    }
  }

  /** @param {string} key @param {string} version @param {(Node | string)[]} nodes */
  #show(key, version, nodes) {
    const scrollTop = key === this.#shownKey ? (this.parentElement?.scrollTop ?? 0) : 0;
    const hadFocus = this.contains(document.activeElement);
    const tabs = nodes.find((node) => node instanceof Element && node.querySelector("tab-set"));
    if (tabs instanceof Element && store.view.tab) tabs.querySelector("tab-set")?.setAttribute("data-show", store.view.tab);
    this.replaceChildren(...nodes);
    this.parentElement?.toggleAttribute("data-open", Boolean(key) && store.selectedBy !== "page");
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
    const item = target?.closest("li[data-span]");
    if (item && !target?.closest("a")) store.select(item.getAttribute("data-span") ?? "");
  };

  /** Show or hide the content of the session without leaving the page. */
  #onSubmit = async (/** @type {SubmitEvent} */ event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || !form.matches(".content-switch")) return;
    event.preventDefault();
    const body = new FormData(form);
    body.set("fragment", "1");
    try {
      const response = await fetch(form.action, { method: "POST", body });
      if (!response.ok || isSignedOut(response)) throw new Error(String(response.status));
      this.#version = "";
      await this.#update();
      this.querySelector(".switch")?.dispatchEvent(new Event("focus"));
    } catch {
      problem("Couldn't change this. Try again.");
    }
  };
}

/** @param {Response} response */
function failureOf(response) {
  if (response.ok) return "You've been signed out. Reload the page to sign in again.";
  return response.status === 404 ? "This span doesn't exist anymore." : "Couldn't load this span. Try again.";
}

/** @param {string} key @param {string} text */
function describeFailure(key, text) {
  const { kind, name } = store.spans.columns;
  const at = store.spans.findKey(key);
  const title = at >= 0 ? titleOf(kind[at] ?? "", name[at] ?? "") : "Inspector";
  return [
    h("div", { class: "inspect-head" }, icon("error"), h("h2", { dir: "auto" }, title), closeButton()),
    h("div", { class: "inspect-body" }, h("p", { class: "problem", role: "alert" }, text)),
  ];
}

function closeButton() {
  return h(
    "button",
    { class: "button quiet square end no-print", type: "button", "data-action": "overview", "aria-label": "Close", title: "Close (Esc)" },
    icon("close"),
  );
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
  const spanCount = (store.tree.size[at] ?? 1) - 1;
  return [
    h("div", { class: "inspect-head" }, icon("trace"), h("h2", { dir: "auto" }, name[at]), closeButton()),
    h(
      "div",
      { class: "inspect-body" },
      h("p", {}, `Trace with ${pluralize(spanCount, "span")}.`),
      h("p", { class: "mono faint small" }, trace[at]),
    ),
  ];
}

customElements.define("span-inspector", SpanInspector);
