// @ts-check
// Two panels with a handle between them that moves by drag and by arrow keys, and is remembered.
import { h } from "./dom.js";

const STEP = 2;

class SplitPane extends HTMLElement {
  /** @type {HTMLElement | null} */ #handle = null;

  connectedCallback() {
    const [first, second] = this.children;
    if (!first || !second) return;
    this.#handle = h("div", {
      class: "split-handle no-print",
      role: "separator",
      tabindex: "0",
      "aria-orientation": "vertical",
      "aria-label": "Width of the left panel",
      "aria-valuemin": "20",
      "aria-valuemax": "80",
    });
    first.after(this.#handle);
    this.#handle.addEventListener("pointerdown", this.#onDown);
    this.#handle.addEventListener("keydown", this.#onKey);
    this.#handle.addEventListener("dblclick", () => this.#set(Number(this.dataset.start ?? 58)));
    this.#set(Number(localStorage.getItem(this.#key) ?? this.dataset.start ?? 58));
  }

  disconnectedCallback() {
    this.#handle?.remove();
  }

  get #key() {
    return `split:${this.dataset.name ?? ""}`;
  }

  /** @param {number} share of the width, in percent */
  #set(share) {
    const value = Math.max(20, Math.min(80, Number.isFinite(share) ? share : 58));
    this.style.setProperty("--first", `${value}%`);
    this.#handle?.setAttribute("aria-valuenow", String(Math.round(value)));
    localStorage.setItem(this.#key, String(value));
  }

  #onDown = (/** @type {PointerEvent} */ event) => {
    const handle = this.#handle;
    if (!handle) return;
    event.preventDefault();
    handle.focus();
    handle.setPointerCapture(event.pointerId);
    const box = this.getBoundingClientRect();
    const move = (/** @type {PointerEvent} */ at) => this.#set(((at.clientX - box.left) / box.width) * 100);
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", () => handle.removeEventListener("pointermove", move), { once: true });
  };

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    const now = Number(this.#handle?.getAttribute("aria-valuenow"));
    if (event.key === "ArrowLeft") this.#set(now - STEP);
    else if (event.key === "ArrowRight") this.#set(now + STEP);
    else if (event.key === "Home") this.#set(20);
    else if (event.key === "End") this.#set(80);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
}
customElements.define("split-pane", SplitPane);
