// @ts-check
// Two panels, side by side or one above the other, with a handle that moves by drag and by arrow keys, and is remembered.
import { h } from "./dom.js";

const STEP = 2;
const [LEAST, MOST] = [20, 80];

class SplitPane extends HTMLElement {
  /** @type {HTMLElement | null} */ #handle = null;
  /** @type {ResizeObserver | null} */ #resize = null;
  #areRows = this.dataset.axis === "rows";

  connectedCallback() {
    const [first, second] = this.children;
    if (!first || !second) return;
    this.#handle = h("div", {
      class: "split-handle no-print",
      role: "separator",
      tabindex: "0",
      "aria-orientation": this.#areRows ? "horizontal" : "vertical",
      "aria-label": this.#areRows ? "Height of the upper panel" : "Width of the left panel",
      "aria-valuemin": String(LEAST),
      "aria-valuemax": String(MOST),
      "aria-valuenow": "50",
    });
    first.after(this.#handle);
    this.#handle.addEventListener("pointerdown", this.#onDown);
    this.#handle.addEventListener("keydown", this.#onKey);
    this.#handle.addEventListener("dblclick", () => this.#reset());
    const kept = Number(localStorage.getItem(this.#key) ?? NaN);
    if (Number.isFinite(kept)) this.#set(kept);
    this.#resize = new ResizeObserver(() => this.#tell(first));
    this.#resize.observe(first);
  }

  disconnectedCallback() {
    this.#resize?.disconnect();
    this.#handle?.remove();
  }

  get #key() {
    return `split:${this.dataset.name ?? ""}`;
  }

  /** Until somebody moves it, the style decides where the handle stands. @param {Element} first */
  #tell(first) {
    if (this.style.getPropertyValue("--first")) return;
    const [whole, part] = [this.getBoundingClientRect(), first.getBoundingClientRect()];
    const share = this.#areRows ? part.height / whole.height : part.width / whole.width;
    this.#handle?.setAttribute("aria-valuenow", String(Math.round(share * 100)));
  }

  /** @param {number} share in percent */
  #set(share) {
    const value = Math.max(LEAST, Math.min(MOST, share));
    this.style.setProperty("--first", `${value}%`);
    this.#handle?.setAttribute("aria-valuenow", String(Math.round(value)));
    localStorage.setItem(this.#key, String(value));
  }

  #reset() {
    this.style.removeProperty("--first");
    localStorage.removeItem(this.#key);
  }

  #onDown = (/** @type {PointerEvent} */ event) => {
    const handle = this.#handle;
    if (!handle) return;
    event.preventDefault();
    handle.focus();
    handle.setPointerCapture(event.pointerId);
    const box = this.getBoundingClientRect();
    const move = (/** @type {PointerEvent} */ at) => this.#set((this.#areRows ? (at.clientY - box.top) / box.height : (at.clientX - box.left) / box.width) * 100);
    handle.addEventListener("pointermove", move);
    handle.addEventListener("lostpointercapture", () => handle.removeEventListener("pointermove", move), { once: true });
  };

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    const now = Number(this.#handle?.getAttribute("aria-valuenow"));
    const [less, more] = this.#areRows ? ["ArrowUp", "ArrowDown"] : ["ArrowLeft", "ArrowRight"];
    if (event.key === less) this.#set(now - STEP);
    else if (event.key === more) this.#set(now + STEP);
    else if (event.key === "Home") this.#set(LEAST);
    else if (event.key === "End") this.#set(MOST);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
}
customElements.define("split-pane", SplitPane);
