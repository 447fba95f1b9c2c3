// @ts-check
// <session-view>: loads the store, applies live updates, and keeps the selection in the URL.
import "../json-view.js";
import "../split-pane.js";
import "./page-tour.js";
import "./span-inspector.js";
import "./span-tree.js";
import "./timeline/token-timeline.js";
import { isTyping, problem } from "../dom.js";
import { LiveParts } from "../live-parts.js";
import { LiveSocket } from "../live-socket.js";
import { updateTimes } from "../relative-times.js";
import { formatAddress, parseAddress } from "./address.js";
import { startOf, store } from "./store.js";

const RETRY_MS = 2000;
// Minimum time between two requests for the texts and figures above the chart.
const HEAD_MS = 1000;

class SessionView extends HTMLElement {
  /** @type {LiveSocket | null} */ #socket = null;
  /** @type {(() => void)[]} */ #unsubscribe = [];
  #isReloading = false;
  #isReady = false;
  #head = new LiveParts("head", HEAD_MS, (html) => this.#showHead(html));

  async connectedCallback() {
    this.addEventListener("click", this.#onClick);
    document.addEventListener("keydown", this.#onKey);
    addEventListener("hashchange", this.#readAddress);
    this.#unsubscribe = [
      store.subscribe("selected", () => this.#writeAddress()),
      store.subscribe("view", () => this.#writeAddress()),
      store.subscribe("session", () => this.#head.refreshSoon()),
      store.subscribe("checks", () => {
        if (this.#isReady) store.selectWorst();
      }),
    ];
    const session = this.dataset.session ?? "";
    const { span: _, ...view } = parseAddress(location.hash);
    store.setView(view);
    // The websocket starts after the tree. A check that is in the tree but not yet in the checks must be loaded again.
    const checks = this.#loadChecks(session);
    await this.#load(session);
    void checks.then(() => (store.hasOutdatedChecks ? this.#loadChecks(session) : undefined));
    // The chart may be ready before the tree. What the reader has selected in it goes before the address.
    if (!store.selected) this.#readAddress();
    this.#isReady = true;
    store.selectWorst();
    this.#writeAddress();
    this.#socket = new LiveSocket(`/ws/sessions/${encodeURIComponent(session)}/`, {
      after: store.seq,
      count: (frame) => frame.spans?.id.length ?? 1,
      onFrame: (frame) => {
        if (frame.type === "comments") {
          document.dispatchEvent(new CustomEvent("ariadne:comments"));
          return;
        }
        if (frame.type === "moved") {
          if (frame.to) location.replace(`/sessions/${frame.to}/${location.hash}`);
          return;
        }
        store.apply(frame);
        if (frame.session && store.hasExtraSpans) void this.#reload(session);
        else if (frame.checks_stale) void this.#loadChecks(session);
      },
    });
  }

  disconnectedCallback() {
    this.#socket?.close();
    document.removeEventListener("keydown", this.#onKey);
    removeEventListener("hashchange", this.#readAddress);
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#head.stop();
  }

  /** @param {string} session */
  #load(session) {
    const showOffline = () => document.dispatchEvent(new CustomEvent("ariadne:live", { detail: { state: "offline", waiting: 0 } }));
    return this.#retry(() => store.load(session), showOffline);
  }

  /**
   * Load everything again and restart the websocket, because loading drops updates that arrived during the request.
   * @param {string} session
   */
  async #reload(session) {
    if (this.#isReloading) return;
    this.#isReloading = true;
    await Promise.all([this.#load(session), this.#loadChecks(session)]);
    this.#isReloading = false;
    if (!this.#socket) return;
    this.#socket.seq = store.seq;
    this.#socket.restart();
  }

  /** @param {string} session */
  #loadChecks(session) {
    return this.#retry(() => store.loadChecks(session));
  }

  /**
   * Repeat a request until it succeeds or the page is left.
   * @param {() => Promise<void>} request
   * @param {() => void} [onFailure]
   */
  async #retry(request, onFailure) {
    while (this.isConnected) {
      try {
        await request();
        return;
      } catch {
        onFailure?.();
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  /** Take the selection and the view from the address. The span may be named by its id alone. */
  #readAddress = () => {
    const { span, ...view } = parseAddress(location.hash);
    store.setView(view);
    if (!span) return;
    const at = store.spans.findKey(span);
    if (at >= 0) store.select(store.spans.key(at), "address");
    else problem("This session has no such span. The link may be outdated.");
  };

  #writeAddress() {
    // The address names the selection until the tree has loaded.
    if (!this.#isReady) return;
    const hash = formatAddress({ ...store.view, span: store.selectedBy === "page" ? "" : store.selected });
    if (location.hash !== hash) history.replaceState(history.state, "", `${location.pathname}${location.search}${hash}`);
  }

  /** @param {string} html */
  #showHead(html) {
    this.#head.replace(html);
    // An event just arrived, whatever the agent's clock says.
    this.querySelector(".running")?.setAttribute("data-last", new Date().toISOString());
    updateTimes(this);
  }

  #onClick = (/** @type {MouseEvent} */ event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-action=live]") : null;
    if (button) this.#socket?.toggleFrom(button);
  };

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.toLowerCase() === "c") this.#stepCompaction(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape" && !document.querySelector("dialog[open]")) store.select("");
  };

  /** Select the next or previous compaction, or the first or last if none is selected. @param {number} step */
  #stepCompaction(step) {
    const { compactions } = store;
    if (!compactions.length) return;
    const current = compactions.findIndex((check) => check.span === store.selected);
    const next = current < 0 && step < 0 ? compactions.length - 1 : (current + step + compactions.length) % compactions.length;
    const check = compactions[next];
    if (check && startOf(check)) store.select(check.span);
  }
}

customElements.define("session-view", SessionView);
