// @ts-check
// What every page has: the connection state, the menu, times, and the few keys that work everywhere.
import "./live-state.js";
import "./menu-button.js";
import { copy, isTyping, toast } from "./dom.js";
import { keepTimes } from "./relative-times.js";

const THEMES = ["", "light", "dark"];

function nextTheme() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length] ?? "";
  if (next) root.dataset.theme = next;
  else delete root.dataset.theme;
  localStorage.setItem("theme", next);
  document.dispatchEvent(new CustomEvent("ariadne:theme"));
  toast(next ? `Theme: ${next}` : "Theme: as the system");
}

function showShortcuts() {
  const dialog = document.getElementById("shortcuts");
  if (dialog instanceof HTMLDialogElement && !dialog.open) dialog.showModal();
}

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-action]") : null;
  if (button?.getAttribute("data-action") === "theme") nextTheme();
  if (button?.getAttribute("data-action") === "shortcuts") showShortcuts();
  if (button?.getAttribute("data-action") === "print") print();
  if (button?.getAttribute("data-action") === "copy") void copy(button.getAttribute("data-text") ?? "");
});

document.addEventListener("change", (event) => {
  if (event.target instanceof HTMLSelectElement && event.target.matches("[data-submit]")) event.target.form?.submit();
});

document.addEventListener("keydown", (event) => {
  if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "?") showShortcuts();
  else if (event.key === "t") nextTheme();
  else if (event.key === "/") {
    const field = document.querySelector("[data-find]");
    if (field instanceof HTMLInputElement) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  } else if (event.key === " ") {
    const toggle = document.querySelector("[data-action=live]");
    const onControl = event.target instanceof Element && event.target.closest("button, a, summary");
    if (toggle instanceof HTMLElement && !onControl) {
      event.preventDefault();
      toggle.click();
    }
  }
});

document.querySelector(".topbar nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
keepTimes();
