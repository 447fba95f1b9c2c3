// @ts-check
// <page-tour data-opens>: introduces the session page on the first visit. Afterwards, on a phone, and on a session
// without data, it opens only from its button.

// The key of earlier releases, so that users who dismissed the tour don't see it again.
const STORAGE_KEY = "first-look";

class PageTour extends HTMLElement {
  #step = 0;

  connectedCallback() {
    this.#button.addEventListener("click", this.#onToggle);
    this.#panel.addEventListener("click", this.#onClick);
    this.#panel.addEventListener("keydown", this.#onKey);
    document.addEventListener("keydown", this.#onPageKey, true);
    // A link to a span is about that span, which the tour would cover. On a phone it would cover the whole page.
    const isNarrow = matchMedia("(max-width: 720px)").matches;
    const isPlainVisit = !location.hash && !location.search && !isNarrow;
    if (this.hasAttribute("data-opens") && isPlainVisit && !isDismissed()) this.#open();
  }

  disconnectedCallback() {
    document.removeEventListener("keydown", this.#onPageKey, true);
    clearHighlight();
  }

  get #button() {
    return /** @type {HTMLElement} */ (this.querySelector("button[aria-controls]"));
  }

  get #panel() {
    return /** @type {HTMLElement} */ (this.querySelector("section"));
  }

  get #steps() {
    return /** @type {HTMLElement[]} */ ([...this.querySelectorAll("li")]);
  }

  /** @param {string} name */
  #control(name) {
    return /** @type {HTMLButtonElement} */ (this.querySelector(`[data-step=${name}]`));
  }

  #open() {
    this.#panel.hidden = false;
    this.#button.setAttribute("aria-expanded", "true");
    this.#show(0);
  }

  #close() {
    saveDismissal();
    clearHighlight();
    this.#panel.hidden = true;
    this.#button.setAttribute("aria-expanded", "false");
    if (this.contains(document.activeElement)) this.#button.focus();
  }

  /** Show one step and outline the element it describes. @param {number} index */
  #show(index) {
    const steps = this.#steps;
    this.#step = index;
    steps.forEach((step, i) => (step.hidden = i !== index));
    clearHighlight();
    document.querySelector(steps[index]?.dataset.shows ?? "")?.setAttribute("data-hinted", "");
    this.#control("back").disabled = index === 0;
    this.#control("next").textContent = index === steps.length - 1 ? "Done" : "Next";
    const place = this.querySelector("[data-slot=place]");
    if (place) place.textContent = `${index + 1} of ${steps.length}`;
  }

  get #isLastStep() {
    return this.#step === this.#steps.length - 1;
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
    const action = event.target instanceof Element ? event.target.closest("[data-step]")?.getAttribute("data-step") : "";
    if (action === "close" || (action === "next" && this.#isLastStep)) this.#close();
    else if (action === "next") this.#show(this.#step + 1);
    else if (action === "back") this.#show(this.#step - 1);
  };

  /** Escape closes the tour wherever the focus is, and does nothing else. */
  #onPageKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || this.#panel.hidden || document.querySelector("dialog[open]")) return;
    event.stopPropagation();
    this.#close();
  };

  // Page shortcuts such as Escape don't apply while the tour has the focus.
  #onKey = (/** @type {KeyboardEvent} */ event) => {
    event.stopPropagation();
    if (event.key === "ArrowRight" && !this.#isLastStep) this.#show(this.#step + 1);
    else if (event.key === "ArrowLeft" && this.#step > 0) this.#show(this.#step - 1);
  };
}
customElements.define("page-tour", PageTour);

function clearHighlight() {
  for (const element of document.querySelectorAll("[data-hinted]")) element.removeAttribute("data-hinted");
}

// Browsers can block localStorage. The tour then opens on every visit.
function isDismissed() {
  try {
    return localStorage.getItem(STORAGE_KEY) !== null;
  } catch {
    return false;
  }
}

function saveDismissal() {
  try {
    localStorage.setItem(STORAGE_KEY, "seen");
  } catch {
    return;
  }
}
