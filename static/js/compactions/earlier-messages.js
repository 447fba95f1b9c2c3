// @ts-check
// Buttons with data-message: show a message of an earlier prompt, which the ledger does not list, below its line.
import { fetchFragment, h } from "../dom.js";

/** Addresses of messages by id. @returns {Record<string, string>} */
const addresses = () => JSON.parse(document.getElementById("earlier-messages")?.textContent ?? "{}");

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-message]") : null;
  const line = button?.closest("li, .line-source");
  if (!(button instanceof HTMLElement) || !line) return;
  const id = button.dataset.message ?? "";
  const open = [...line.querySelectorAll(".earlier-message")].find((message) => message.getAttribute("data-id") === id);
  button.setAttribute("aria-expanded", String(!open));
  if (open) return open.remove();
  const content = h("div", { class: "bubble earlier-message", "data-id": id, "aria-busy": "true" }, h("p", { class: "faint" }, "Loading…"));
  line.append(content);
  const url = addresses()[id];
  const note = (/** @type {string} */ text) => [h("p", { class: "soft" }, text)];
  const nodes = url ? await fetchFragment(url) : note("The text of this message isn't stored.");
  content.replaceChildren(...(nodes ?? note("Couldn't load this message. Close it and try again.")));
  content.removeAttribute("aria-busy");
});
