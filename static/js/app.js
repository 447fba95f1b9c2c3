// @ts-check
// Loaded by every page: connection status, account menu, confirmations, times, theme and global keyboard shortcuts.
import "./confirm-dialog.js";
import "./live-state.js";
import "./menu-button.js";
import { openPalette } from "./command-palette.js";
import { copy, isTyping, toast } from "./dom.js";
import { startTimeUpdates } from "./relative-times.js";
import { moveByKey } from "./row-keys.js";

// An empty theme follows the system.
const THEMES = ["", "light", "dark"];

/** @type {Record<string, (button: Element) => void>} */
const ACTIONS = {
  theme: switchTheme,
  shortcuts: showShortcuts,
  palette: () => openPalette(),
  print: () => print(),
  filters: toggleFilters,
  find: focusSearch,
  copy: (button) => void copy(button.getAttribute("data-text") ?? ""),
  "copy-link": (button) => void copy(new URL(button.getAttribute("data-text") ?? "", location.href).href),
};

function switchTheme() {
  const root = document.documentElement;
  const theme = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length] ?? "";
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  localStorage.setItem("theme", theme);
  document.dispatchEvent(new CustomEvent("ariadne:theme"));
  toast(`Theme: ${theme || "system"}`);
}

/** Show or hide the fields of a form that phones hide. @param {Element} button */
function toggleFilters(button) {
  const isOpen = button.closest("form")?.toggleAttribute("data-open") ?? false;
  button.setAttribute("aria-expanded", String(isOpen));
}

function showShortcuts() {
  const dialog = document.getElementById("shortcuts");
  if (dialog instanceof HTMLDialogElement && !dialog.open) dialog.showModal();
}

function focusSearch() {
  const field = document.querySelector("[data-find]");
  if (!(field instanceof HTMLInputElement)) return;
  field.focus();
  field.select();
}

/** @param {KeyboardEvent} event */
function toggleLive(event) {
  const toggle = document.querySelector("[data-action=live]");
  const isOnControl = event.target instanceof Element && event.target.closest("button, a, summary");
  if (!(toggle instanceof HTMLElement) || isOnControl) return;
  event.preventDefault();
  toggle.click();
}

/** @type {Record<string, (event: KeyboardEvent) => void>} */
const SHORTCUTS = {
  "?": showShortcuts,
  t: switchTheme,
  "/": (event) => {
    // The field would get the slash.
    event.preventDefault();
    focusSearch();
  },
  " ": toggleLive,
};

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-action]") : null;
  if (button) ACTIONS[button.getAttribute("data-action") ?? ""]?.(button);
});

document.addEventListener("change", (event) => {
  if (event.target instanceof HTMLSelectElement && event.target.matches("[data-submit]")) event.target.form?.submit();
});

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  if (moveByKey(event)) event.preventDefault();
  else SHORTCUTS[event.key]?.(event);
});

// Links back to the session list restore the filters it was left with.
for (const link of document.querySelectorAll("a[data-list]")) {
  if (link instanceof HTMLAnchorElement) link.search = sessionStorage.getItem("list-query") ?? "";
}

// Prefetching earlier would delay the first paint.
addEventListener("load", () => {
  const links = document.querySelector("template[data-prefetch]");
  if (links instanceof HTMLTemplateElement) requestIdleCallback(() => document.head.append(links.content));
});

startTimeUpdates();
