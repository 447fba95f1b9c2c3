// @ts-check
// The session page: loads the store, follows the session's socket, keeps the address in step with the selection.
import "./page-tour.js";
import "../json-view.js";
import "./span-inspector.js";
import "./span-tree.js";
import "../split-pane.js";
import "./timeline/token-timeline.js";
import { isTyping, setText, toast } from "../dom.js";
import { counted, percent, shortTokens, tokens } from "../format.js";
import { LiveSocket } from "../live-socket.js";
import { startOf, store } from "./store.js";

const RETRY_MS = 2000;

class SessionView extends HTMLElement {
  /** @type {LiveSocket | null} */ #socket = null;
  /** @type {(() => void)[]} */ #undo = [];
  #isReloading = false;

  async connectedCallback() {
    this.addEventListener("click", this.#onClick);
    document.addEventListener("keydown", this.#onKey);
    addEventListener("hashchange", this.#readAddress);
    this.#undo = [
      store.subscribe("selected", () => this.#writeAddress()),
      store.subscribe("session", () => this.#drawFigures()),
      store.subscribe("checks", () => this.#drawStory()),
    ];
    const session = this.dataset.session ?? "";
    // A check between the two answers is in the tree alone; the socket tells only what comes after the tree.
    const checks = this.#loadChecks(session);
    await this.#load(session);
    void checks.then(() => (store.checksAreOlder ? this.#loadChecks(session) : undefined));
    this.#readAddress();
    this.#socket = new LiveSocket(`/ws/sessions/${encodeURIComponent(session)}/`, {
      after: store.seq,
      count: (frame) => frame.spans?.id.length ?? 1,
      onFrame: (frame) => {
        if (frame.type === "moved") {
          if (frame.to) location.replace(`/sessions/${frame.to}/${location.hash}`);
          return;
        }
        store.take(frame);
        if (frame.session && store.hasTooMany) void this.#reload(session);
        else if (frame.checks_stale) void this.#loadChecks(session);
      },
    });
  }

  disconnectedCallback() {
    this.#socket?.close();
    document.removeEventListener("keydown", this.#onKey);
    removeEventListener("hashchange", this.#readAddress);
    for (const undo of this.#undo) undo();
  }

  /** Until it succeeds: without the tree there is nothing to follow. @param {string} session */
  #load(session) {
    const sayOffline = () => document.dispatchEvent(new CustomEvent("ariadne:live", { detail: { state: "offline", waiting: 0 } }));
    return this.#insist(() => store.load(session), sayOffline);
  }

  /** The tree takes the place of the one that is there, so what came while it was asked for must come again. @param {string} session */
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
    return this.#insist(() => store.loadChecks(session));
  }

  /** Ask again and again, as long as there is a page to answer to. @param {() => Promise<void>} ask @param {() => void} [onFailure] */
  async #insist(ask, onFailure) {
    while (this.isConnected) {
      try {
        await ask();
        return;
      } catch {
        onFailure?.();
        await pause();
      }
    }
  }

  /** A link may name a span by its id alone. */
  #readAddress = () => {
    const name = new URLSearchParams(location.hash.slice(1)).get("span") ?? "";
    if (!name) return;
    const at = store.spans.findKey(name);
    if (at >= 0) store.select(store.spans.key(at));
    else toast("The span of this link is not in the session");
  };

  #writeAddress() {
    const hash = store.selected ? `#span=${encodeURIComponent(store.selected)}` : "";
    if (location.hash !== hash) history.replaceState(null, "", `${location.pathname}${location.search}${hash}`);
  }

  #drawStory() {
    const slot = this.querySelector('[data-slot="story"]');
    if (slot && store.story) setText(slot, store.story);
    const next = this.querySelector('[data-slot="projected"]');
    if (next) setText(next, store.projectedTurns ? `about ${counted(store.projectedTurns, "turn")}` : "–");
  }

  #drawFigures() {
    const session = store.session;
    if (!session) return;
    /** @type {Record<string, string>} */
    const words = {
      model: session.model || "–",
      turn_count: session.turn_count ? tokens(session.turn_count) : "–",
      compaction_count: tokens(session.compaction_count),
      last_tokens: `${tokens(session.last_tokens)}${session.window_tokens ? ` of ${shortTokens(session.window_tokens)}` : ""}`,
      peak_tokens: tokens(session.peak_tokens),
      worst_retention: percent(session.worst_retention),
      error_count: tokens(session.error_count),
      span_count: tokens(session.span_count),
    };
    for (const [name, text] of Object.entries(words)) {
      const slot = this.querySelector(`[data-slot="${name}"]`);
      if (slot) setText(slot, text);
    }
    this.querySelector('[data-slot="error_count"]')?.classList.toggle("bad", session.error_count > 0);
    const running = this.querySelector('[data-slot="running"]');
    if (running instanceof HTMLElement) running.hidden = !session.is_running;
    const last = this.querySelector('[data-slot="last_at"] time');
    if (last && session.last_at) {
      last.setAttribute("datetime", session.last_at);
      last.removeAttribute("data-exact");
    }
  }

  #onClick = (/** @type {MouseEvent} */ event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-action=live]") : null;
    if (button) this.#socket?.press(button);
  };

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "c" || event.key === "C") this.#stepCompaction(event.key === "C" ? -1 : 1);
    else if (event.key === "Escape" && !document.querySelector("dialog[open]")) store.select("");
  };

  /** @param {number} step */
  #stepCompaction(step) {
    const all = store.compactions;
    if (!all.length) return;
    const at = all.findIndex((check) => check.span === store.selected);
    const last = all.length - 1;
    const next = at < 0 ? (step > 0 ? 0 : last) : (at + step + all.length) % all.length;
    const check = all[next];
    if (check && startOf(check)) store.select(check.span);
  }
}

/** @returns {Promise<void>} */
function pause() {
  return new Promise((done) => setTimeout(done, RETRY_MS));
}
customElements.define("session-view", SessionView);
