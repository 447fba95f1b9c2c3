// @ts-check
// The head of the tree: a field to find in, a choice of kinds, buttons. Says what is wanted; the tree does it.
import { h, setText } from "../dom.js";
import { tokens } from "../format.js";

const KINDS = [
  ["", "All kinds"],
  ["compact", "Compaction"],
  ["error", "Errors"],
  ["generation", "Generations"],
  ["tool", "Tools"],
  ["turn", "Turns"],
  ["running", "Running"],
];

/**
 * What the tree is asked to do.
 * @typedef {{ filter: () => void, stepMatch: (step: number, stay?: boolean) => void, stepError: () => void,
 *   openAll: () => void, closeAll: () => void, leave: () => void }} Wishes
 */

export class TreeTools {
  /** What is looked for, in lower case. */ find = "";
  /** The chosen kind, or nothing. */ kinds = "";
  /** Whether what does not match is left out. */ onlyMatches = false;
  #field = h("input", { class: "field", type: "search", placeholder: "Find in spans…", "aria-label": "Find in spans", "data-find": true });
  #count = h("span", { class: "faint small num", role: "status" });
  #only = h("button", { class: "button", type: "button", "aria-pressed": "false", title: "Show only what matches" }, "Filter");
  #kinds = h("select", { class: "field", "aria-label": "Kinds of spans" }, ...KINDS.map(([value, label]) => h("option", { value }, label)));
  #errors = h("button", { class: "button quiet", type: "button", hidden: true, title: "Next error (e)" });
  #columns = h("div", { class: "tree-columns faint" }, h("span", {}, "Span"), h("span", { class: "num" }, "Tokens"), h("span", { class: "num" }, "Time"));
  #axis = h("div", { class: "tree-axis", "aria-hidden": "true" }, h("span"), h("span"), h("span"));
  element;

  /** @param {Wishes} wishes */
  constructor(wishes) {
    const open = h("button", { class: "button quiet", type: "button", title: "Open all branches", onclick: () => wishes.openAll() }, "Expand");
    const close = h("button", { class: "button quiet", type: "button", title: "Close all branches", onclick: () => wishes.closeAll() }, "Collapse");
    this.#only.addEventListener("click", () => {
      this.onlyMatches = !this.onlyMatches;
      this.#only.setAttribute("aria-pressed", String(this.onlyMatches));
      wishes.filter();
    });
    this.#kinds.addEventListener("change", () => {
      this.kinds = this.#kinds.value;
      wishes.filter();
    });
    this.#errors.addEventListener("click", () => wishes.stepError());
    this.#field.addEventListener("input", () => {
      this.find = this.#field.value.trim().toLowerCase();
      wishes.filter();
      if (this.find) wishes.stepMatch(1, true);
    });
    this.#field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") wishes.stepMatch(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") {
        this.#field.value = this.find = "";
        wishes.filter();
        wishes.leave();
      } else return;
      event.preventDefault();
    });
    this.element = h(
      "div",
      { class: "tree-head" },
      h("div", { class: "panel-head no-print" }, this.#field, this.#count, this.#only, this.#kinds, h("div", { class: "end" }, this.#errors, open, close)),
      this.#columns,
    );
    this.#columns.append(this.#axis);
  }

  focus() {
    this.#field.focus();
    this.#field.select();
  }

  /** Everything is shown again. */
  clear() {
    this.kinds = this.#kinds.value = "";
    this.onlyMatches = false;
    this.#only.setAttribute("aria-pressed", "false");
  }

  /** @param {string} words how many were found, or which of them this is */
  tellFound(words) {
    setText(this.#count, words);
  }

  /** @param {number} errors */
  tellErrors(errors) {
    this.#errors.hidden = !errors;
    setText(this.#errors, `${tokens(errors)} error${errors === 1 ? "" : "s"}`);
  }

  /** @param {number} width what the rows below lose to their scrollbar */
  leaveRoom(width) {
    this.#columns.style.marginInlineEnd = `${width}px`;
  }

  /** @param {string[]} words at the beginning, the middle and the end of the axis */
  tellAxis(words) {
    [...this.#axis.children].forEach((mark, i) => setText(mark, words[i] ?? ""));
  }
}
