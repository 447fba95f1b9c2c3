// @ts-check
// Raw JSON with search, copy and download. The text is the server's; this only adds the tools.
import { download, h, icon, toast } from "./dom.js";

class JsonView extends HTMLElement {
  connectedCallback() {
    const heading = this.querySelector("h3");
    const code = this.querySelector("code");
    if (!heading || !code || this.querySelector(".json-tools")) return;
    const text = code.textContent ?? "";
    const field = h("input", { class: "field", type: "search", placeholder: "Search the data…", "aria-label": "Search the data" });
    const count = h("span", { class: "faint small", role: "status" });
    field.addEventListener("input", () => this.#mark(code, text, field.value, count));
    const copy = h("button", { class: "button quiet square", type: "button", "aria-label": "Copy the JSON", title: "Copy" }, icon("copy"));
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      toast("Copied");
    });
    const save = h("button", { class: "button quiet square", type: "button", "aria-label": "Download the JSON", title: "Download" }, icon("download"));
    save.addEventListener("click", () => download(`${this.dataset.name ?? "data"}.json`, new Blob([text], { type: "application/json" })));
    heading.after(h("div", { class: "json-tools no-print" }, field, count, copy, save));
  }

  /** @param {Element} code @param {string} text @param {string} wanted @param {Element} count */
  #mark(code, text, wanted, count) {
    if (!wanted) {
      code.textContent = text;
      count.textContent = "";
      return;
    }
    const lower = text.toLowerCase();
    const needle = wanted.toLowerCase();
    const parts = [];
    let from = 0;
    let found = 0;
    // A thousand marks are more than anyone reads; the count goes on.
    for (let at = lower.indexOf(needle); at >= 0; at = lower.indexOf(needle, at + needle.length)) {
      found++;
      if (found > 1000) continue;
      parts.push(text.slice(from, at), h("mark", {}, text.slice(at, at + needle.length)));
      from = at + needle.length;
    }
    code.replaceChildren(...parts, text.slice(from));
    count.textContent = found ? `${found} found` : "none";
    code.querySelector("mark")?.scrollIntoView({ block: "nearest" });
  }
}
customElements.define("json-view", JsonView);
