// @ts-check
// A few hints for who sees the session page for the first time. Floats over the page, so nothing moves for it;
// once dismissed or read to the end it stays away in this browser, until its button is pressed.

const KEY = "first-look";

class PageTour extends HTMLElement {
  #at = 0;

  connectedCallback() {
    this.#button.addEventListener("click", this.#onToggle);
    this.#panel.addEventListener("click", this.#onClick);
    this.#panel.addEventListener("keydown", this.#onKey);
    if (!seen()) this.#open();
  }

  disconnectedCallback() {
    this.#unmark();
  }

  get #button() {
    return /** @type {HTMLElement} */ (this.querySelector("button[aria-controls]"));
  }

  get #panel() {
    return /** @type {HTMLElement} */ (this.querySelector("section"));
  }

  get #hints() {
    return /** @type {HTMLElement[]} */ ([...this.querySelectorAll("li")]);
  }

  /** @param {string} step */
  #control(step) {
    return /** @type {HTMLButtonElement} */ (this.querySelector(`[data-step=${step}]`));
  }

  #open() {
    this.#panel.hidden = false;
    this.#button.setAttribute("aria-expanded", "true");
    this.#show(0);
  }

  #close() {
    remember();
    this.#unmark();
    this.#panel.hidden = true;
    this.#button.setAttribute("aria-expanded", "false");
    if (this.contains(document.activeElement)) this.#button.focus();
  }

  /** @param {number} at */
  #show(at) {
    const hints = this.#hints;
    this.#at = at;
    hints.forEach((hint, index) => (hint.hidden = index !== at));
    this.#unmark();
    document.querySelector(hints[at]?.dataset.shows ?? "")?.setAttribute("data-hinted", "");
    this.#control("back").disabled = at === 0;
    this.#control("next").textContent = at === hints.length - 1 ? "Done" : "Next";
    const place = this.querySelector("[data-slot=place]");
    if (place) place.textContent = `${at + 1} of ${hints.length}`;
  }

  #unmark() {
    for (const marked of document.querySelectorAll("[data-hinted]")) marked.removeAttribute("data-hinted");
  }

  #onToggle = () => {
    if (!this.#panel.hidden) {
      this.#close();
      return;
    }
    this.#open();
    this.#control("next").focus();
  };

  #onClick = (/** @type {MouseEvent} */ event) => {
    const step = event.target instanceof Element ? event.target.closest("[data-step]")?.getAttribute("data-step") : "";
    if (step === "close" || (step === "next" && this.#at === this.#hints.length - 1)) this.#close();
    else if (step === "next") this.#show(this.#at + 1);
    else if (step === "back") this.#show(this.#at - 1);
  };

  // The page's own keys (Escape clears the selection) wait while the focus is in here.
  #onKey = (/** @type {KeyboardEvent} */ event) => {
    event.stopPropagation();
    if (event.key === "Escape") this.#close();
    else if (event.key === "ArrowRight" && this.#at < this.#hints.length - 1) this.#show(this.#at + 1);
    else if (event.key === "ArrowLeft" && this.#at > 0) this.#show(this.#at - 1);
  };
}
customElements.define("page-tour", PageTour);

// A browser that keeps nothing shows the hints again; that is better than an error.
function seen() {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return false;
  }
}

function remember() {
  try {
    localStorage.setItem(KEY, "seen");
  } catch {
    return;
  }
}
