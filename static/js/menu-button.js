// @ts-check
// <menu-button>: a button with a menu. Opens on click or arrow keys, closes on Escape or when focus leaves.

class MenuButton extends HTMLElement {
  connectedCallback() {
    this.addEventListener("click", this.#onClick);
    this.addEventListener("keydown", this.#onKey);
    this.addEventListener("focusout", this.#onFocusOut);
  }

  get #menu() {
    return /** @type {HTMLElement} */ (this.querySelector("[role=menu]"));
  }

  get #button() {
    return /** @type {HTMLElement} */ (this.querySelector("button[aria-haspopup]"));
  }

  /** @param {boolean} isOpen */
  #setOpen(isOpen) {
    this.#menu.hidden = !isOpen;
    this.#button.setAttribute("aria-expanded", String(isOpen));
  }

  #onClick = (/** @type {MouseEvent} */ event) => {
    if (this.#button.contains(/** @type {Node} */ (event.target))) this.#setOpen(Boolean(this.#menu.hidden));
  };

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") {
      this.#setOpen(false);
      this.#button.focus();
      return;
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    this.#setOpen(true);
    const items = /** @type {HTMLElement[]} */ ([...this.#menu.querySelectorAll("[role=menuitem]")]);
    const current = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const step = event.key === "ArrowDown" ? 1 : -1;
    items.at(current < 0 && step < 0 ? -1 : (current + step) % items.length)?.focus();
  };

  #onFocusOut = (/** @type {FocusEvent} */ event) => {
    if (!this.contains(/** @type {Node | null} */ (event.relatedTarget))) this.#setOpen(false);
  };
}
customElements.define("menu-button", MenuButton);
