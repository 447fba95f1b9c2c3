// @ts-check
// A button with a menu under it: opens by click and by arrow, closes by Escape and by going elsewhere.

class MenuButton extends HTMLElement {
  connectedCallback() {
    this.addEventListener("click", this.#onClick);
    this.addEventListener("keydown", this.#onKey);
    this.addEventListener("focusout", this.#onLeave);
  }

  get #menu() {
    return /** @type {HTMLElement} */ (this.querySelector("[role=menu]"));
  }

  get #button() {
    return /** @type {HTMLElement} */ (this.querySelector("button[aria-haspopup]"));
  }

  /** @param {boolean} isOpen */
  #set(isOpen) {
    this.#menu.hidden = !isOpen;
    this.#button.setAttribute("aria-expanded", String(isOpen));
  }

  #onClick = (/** @type {MouseEvent} */ event) => {
    if (this.#button.contains(/** @type {Node} */ (event.target))) this.#set(Boolean(this.#menu.hidden));
  };

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") {
      this.#set(false);
      this.#button.focus();
      return;
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    this.#set(true);
    const items = /** @type {HTMLElement[]} */ ([...this.#menu.querySelectorAll("[role=menuitem]")]);
    const at = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const step = event.key === "ArrowDown" ? 1 : -1;
    items.at(at < 0 && step < 0 ? -1 : (at + step) % items.length)?.focus();
  };

  #onLeave = (/** @type {FocusEvent} */ event) => {
    if (!this.contains(/** @type {Node | null} */ (event.relatedTarget))) this.#set(false);
  };
}
customElements.define("menu-button", MenuButton);
