// @ts-check
// Suggestions of people while a comment is typed: a list below the text, used with arrow keys, Enter and Escape.
import { h } from "../dom.js";

const MENTION = /(?:^|[^\w@.])@([\w.@+-]{0,50})$/;

/** @typedef {{ username: string, name: string }} Person */

export class MentionList {
  #source;
  #field;
  #list;
  #active = -1;
  #request = 0;

  /** @param {HTMLTextAreaElement} field @param {string} source */
  constructor(field, source) {
    this.#field = field;
    this.#source = source;
    const id = `people-${Math.random().toString(36).slice(2)}`;
    this.#list = h("ul", { class: "people", role: "listbox", id, "aria-label": "People", hidden: true });
    field.after(this.#list);
    field.setAttribute("aria-controls", id);
    field.setAttribute("aria-autocomplete", "list");
    field.addEventListener("input", () => void this.#update());
    field.addEventListener("keydown", this.#onKey);
    field.addEventListener("blur", () => this.#close());
  }

  /** The part of a name before the cursor, or null. */
  get #query() {
    const before = this.#field.value.slice(0, this.#field.selectionStart);
    return MENTION.exec(before)?.[1] ?? null;
  }

  async #update() {
    const query = this.#query;
    const request = ++this.#request;
    if (query === null) return this.#close();
    try {
      const response = await fetch(`${this.#source}?q=${encodeURIComponent(query)}`);
      const people = response.ok ? (await response.json()).results : [];
      if (request === this.#request) this.#show(people);
    } catch {
      // Suggestions are optional. A name can be typed in full.
      this.#close();
    }
  }

  /** @param {Person[]} people */
  #show(people) {
    const options = people.map((person, index) =>
      h(
        "li",
        {
          role: "option",
          id: `${this.#list.id}-${index}`,
          "data-name": person.username,
          // Before the field loses focus.
          onmousedown: (/** @type {Event} */ event) => {
            event.preventDefault();
            this.#choose(person.username);
          },
        },
        h("bdi", {}, `@${person.username}`),
        person.name ? h("span", { class: "faint" }, ` ${person.name}`) : null,
      ),
    );
    this.#list.replaceChildren(...options);
    this.#list.hidden = options.length === 0;
    this.#mark(options.length ? 0 : -1);
  }

  /** @param {number} index */
  #mark(index) {
    this.#active = index;
    for (const [position, option] of [...this.#list.children].entries()) {
      option.setAttribute("aria-selected", String(position === index));
    }
    if (index < 0) this.#field.removeAttribute("aria-activedescendant");
    else this.#field.setAttribute("aria-activedescendant", `${this.#list.id}-${index}`);
  }

  #close() {
    this.#request += 1;
    this.#list.hidden = true;
    this.#mark(-1);
  }

  /** @param {string} username */
  #choose(username) {
    const { value, selectionStart } = this.#field;
    const query = this.#query ?? "";
    const start = selectionStart - query.length;
    const text = `${username} `;
    this.#field.value = value.slice(0, start) + text + value.slice(selectionStart);
    this.#field.setSelectionRange(start + text.length, start + text.length);
    this.#close();
  }

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    if (this.#list.hidden) return;
    const count = this.#list.children.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.#mark((this.#active + step + count) % count);
    } else if (event.key === "Enter" || event.key === "Tab") {
      this.#choose(this.#list.children[this.#active]?.getAttribute("data-name") ?? "");
    } else if (event.key === "Escape") {
      this.#close();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
}
