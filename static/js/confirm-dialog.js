// @ts-check
// Ask before a form is sent by a button with `data-confirm`.
import { h } from "./dom.js";

/**
 * Ask the question of a button. Return true if the answer is yes, or if the button has no question.
 * @param {HTMLElement | null} button
 * @returns {Promise<boolean>}
 */
export async function isConfirmed(button) {
  const question = button?.dataset.confirm;
  if (!button || !question) return true;
  const dialog = h(
    "dialog",
    { class: "confirm", role: "alertdialog", "aria-labelledby": "confirm-question", "data-testid": "confirm" },
    h("p", { id: "confirm-question", dir: "auto" }, question),
    h(
      "form",
      { method: "dialog" },
      h("button", { class: "button", autofocus: true }, "Cancel"),
      h("button", { class: "button danger", value: "yes" }, button.textContent?.trim() ?? ""),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  dialog.remove();
  return dialog.returnValue === "yes";
}

document.addEventListener("submit", async (event) => {
  const { target: form, submitter } = event;
  if (event.defaultPrevented || !submitter?.dataset.confirm || !(form instanceof HTMLFormElement)) return;
  event.preventDefault();
  if (await isConfirmed(submitter)) form.submit();
});
