// @ts-check
// <split-pane>: two panels with a handle. Drag it or use the arrow keys. A double click resets the size, which is saved.
import { h } from "./dom.js";

// Share of the first panel in percent.
const STEP = 2;
const [MIN, MAX] = [20, 80];

class SplitPane extends HTMLElement {
  /** @type {HTMLElement | null} */ #handle = null;
  /** @type {ResizeObserver | null} */ #observer = null;
  #isStacked = this.dataset.axis === "rows";

  connectedCallback() {
    const [first, second] = this.children;
    if (!first || !second) return;
    this.#handle = h("div", {
      class: "split-handle no-print",
      role: "separator",
      tabindex: "0",
      "aria-orientation": this.#isStacked ? "horizontal" : "vertical",
      "aria-label": this.#isStacked ? "Upper panel height" : "Left panel width",
      "aria-valuemin": String(MIN),
      "aria-valuemax": String(MAX),
      "aria-valuenow": "50",
    });
    first.after(this.#handle);
    this.#handle.addEventListener("pointerdown", this.#onDown);
    this.#handle.addEventListener("keydown", this.#onKey);
    this.#handle.addEventListener("dblclick", () => this.#reset());
    const saved = Number(localStorage.getItem(this.#key) ?? NaN);
    if (Number.isFinite(saved)) this.#resizeTo(saved);
    this.#observer = new ResizeObserver(() => this.#updateValue(first));
    this.#observer.observe(first);
  }

  disconnectedCallback() {
    this.#observer?.disconnect();
    this.#handle?.remove();
  }

  get #key() {
    return `split:${this.dataset.name ?? ""}`;
  }

  /** Report the share that the stylesheet gives the first panel, until the user resizes it. @param {Element} first */
  #updateValue(first) {
    if (this.style.getPropertyValue("--first")) return;
    const [whole, part] = [this.getBoundingClientRect(), first.getBoundingClientRect()];
    const share = this.#isStacked ? part.height / whole.height : part.width / whole.width;
    this.#handle?.setAttribute("aria-valuenow", String(Math.round(share * 100)));
  }

  /** @param {number} share in percent */
  #resizeTo(share) {
    const value = Math.max(MIN, Math.min(MAX, share));
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
    const move = (/** @type {PointerEvent} */ { clientX, clientY }) => {
      const share = this.#isStacked ? (clientY - box.top) / box.height : (clientX - box.left) / box.width;
      this.#resizeTo(share * 100);
    };
    handle.addEventListener("pointermove", move);
    handle.addEventListener("lostpointercapture", () => handle.removeEventListener("pointermove", move), { once: true });
  };

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    const now = Number(this.#handle?.getAttribute("aria-valuenow"));
    const [less, more] = this.#isStacked ? ["ArrowUp", "ArrowDown"] : ["ArrowLeft", "ArrowRight"];
    if (event.key === less) this.#resizeTo(now - STEP);
    else if (event.key === more) this.#resizeTo(now + STEP);
    else if (event.key === "Home") this.#resizeTo(MIN);
    else if (event.key === "End") this.#resizeTo(MAX);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
}
customElements.define("split-pane", SplitPane);
