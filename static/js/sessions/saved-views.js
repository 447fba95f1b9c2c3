// @ts-check
// Named views of the session list. A view is an address, kept in this browser.
import { h } from "../dom.js";

const KEY = "session-views";
const MAX_VIEWS = 20;

/** @typedef {{ name: string, query: string }} View */

export class SavedViews {
  #slot;

  /** @param {HTMLElement} list */
  constructor(list) {
    this.#slot = list.querySelector("[data-slot=saved-views]");
    const form = list.querySelector("[data-action-form=save-view]");
    form?.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!(form instanceof HTMLFormElement)) return;
      const name = String(new FormData(form).get("view") ?? "").trim();
      if (name) this.#save(name);
      form.reset();
    });
    this.#draw();
  }

  /** @param {string} name */
  #save(name) {
    const others = read().filter((view) => view.name !== name);
    const url = new URL(location.href);
    url.searchParams.delete("before");
    write([{ name, query: url.search }, ...others].slice(0, MAX_VIEWS));
    this.#draw();
  }

  #draw() {
    const rows = read().map((view) =>
      h(
        "div",
        { class: "saved-view" },
        h("a", { href: view.query || "?" }, view.name),
        h(
          "button",
          {
            class: "button quiet square",
            type: "button",
            "aria-label": `Delete view ${view.name}`,
            onclick: () => {
              write(read().filter((other) => other.name !== view.name));
              this.#draw();
            },
          },
          "×",
        ),
      ),
    );
    this.#slot?.replaceChildren(...rows);
  }
}

/** @returns {View[]} */
function read() {
  try {
    const views = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(views) ? views.filter((view) => view && typeof view.name === "string" && isQuery(view.query)) : [];
  } catch {
    return [];
  }
}

/** @param {unknown} query */
function isQuery(query) {
  return query === "" || (typeof query === "string" && query.startsWith("?"));
}

/** @param {View[]} views */
function write(views) {
  localStorage.setItem(KEY, JSON.stringify(views));
}
