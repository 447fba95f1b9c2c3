// @ts-check
// The command palette: finds sessions, compactions, spans and actions. Opened with Ctrl K.
import { h, icon, isSignedOut } from "./dom.js";
import { RESULT_LABELS } from "./format.js";

/** @typedef {{ label: string, hint: string, icon: string, run: () => void }} Command */

const DELAY_MS = 140;
const MAX_SESSIONS = 6;
const MAX_COMPACTIONS = 6;
const MAX_SPANS = 6;
const MIN_QUERY = 2;
// Characters of a text before its match.
const CONTEXT_CHARS = 12;

class CommandPalette {
  #field = h("input", {
    class: "field",
    type: "text",
    role: "combobox",
    placeholder: "Search sessions, compactions and actions…",
    "aria-label": "Search sessions, compactions and actions",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
  });
  #list = h("ul", { id: "palette-list", role: "listbox", "aria-label": "Results" });
  #status = h("p", { class: "faint small", role: "status" });
  #dialog = h("dialog", { class: "palette", "aria-label": "Command palette", "data-testid": "command-palette" }, this.#field, this.#list, this.#status);
  /** @type {Command[]} */ #commands = [];
  #active = 0;
  #timer = 0;
  /** @type {AbortController | null} */ #request = null;

  constructor() {
    document.body.append(this.#dialog);
    this.#field.addEventListener("input", () => this.#onInput());
    this.#field.addEventListener("keydown", (event) => this.#onKey(event));
    this.#list.addEventListener("click", (event) => {
      const option = event.target instanceof Element ? event.target.closest("[role=option]") : null;
      if (option) this.#run(Number(option.getAttribute("data-index")));
    });
    // A click on the backdrop has the dialog itself as its target.
    this.#dialog.addEventListener("click", (event) => {
      if (event.target === this.#dialog) this.#dialog.close();
    });
  }

  open() {
    if (this.#dialog.open) return;
    this.#field.value = "";
    this.#dialog.showModal();
    this.#field.focus();
    this.#onInput();
  }

  #onInput() {
    const query = this.#field.value.trim();
    this.#show(matching(pageCommands(), query));
    this.#status.textContent = "";
    clearTimeout(this.#timer);
    this.#request?.abort();
    this.#timer = window.setTimeout(() => void this.#search(query), query ? DELAY_MS : 0);
  }

  /** @param {string} query */
  async #search(query) {
    this.#request = new AbortController();
    const { signal } = this.#request;
    const actions = matching(pageCommands(), query);
    try {
      const [sessions, here, spans] = await Promise.all([findSessions(query, signal), findCompactionsHere(query, signal), findSpans(query, signal)]);
      if (signal.aborted) return;
      this.#show([...here, ...sessions, ...actions, ...spans]);
      this.#status.textContent = this.#commands.length ? "" : `Nothing matches “${query}”`;
    } catch {
      if (!signal.aborted) this.#status.textContent = "Can't reach the server. Only actions are listed.";
    }
  }

  /** @param {Command[]} commands */
  #show(commands) {
    this.#commands = commands;
    this.#list.replaceChildren(
      ...commands.map((command, index) =>
        h(
          "li",
          { role: "option", id: `palette-${index}`, "data-index": index, "aria-selected": "false" },
          icon(command.icon),
          h("span", { class: "label", dir: "auto" }, command.label),
          h("span", { class: "faint small hint", dir: "auto" }, command.hint),
        ),
      ),
    );
    this.#activate(0);
  }

  /** @param {number} index */
  #activate(index) {
    this.#list.children[this.#active]?.setAttribute("aria-selected", "false");
    this.#active = Math.max(0, Math.min(this.#commands.length - 1, index));
    const option = this.#list.children[this.#active];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) this.#field.setAttribute("aria-activedescendant", option.id);
    else this.#field.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const count = Math.max(1, this.#commands.length);
    if (event.key === "ArrowDown") this.#activate((this.#active + 1) % count);
    else if (event.key === "ArrowUp") this.#activate((this.#active + count - 1) % count);
    else if (event.key === "Enter") this.#run(this.#active);
    else return;
    event.preventDefault();
  }

  /** @param {number} index */
  #run(index) {
    const command = this.#commands[index];
    if (!command) return;
    this.#dialog.close();
    command.run();
  }
}

/** Keep the commands that contain every word of a query. @param {Command[]} commands @param {string} query */
function matching(commands, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return commands.filter(({ label, hint }) => words.every((word) => `${label} ${hint}`.toLowerCase().includes(word)));
}

/** Pages and actions that this page offers. @returns {Command[]} */
function pageCommands() {
  const links = [.../** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll(".topbar nav a, .topbar [role=menu] a"))];
  const buttons = [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-command]"))].filter((button) => !button.hidden);
  return [
    ...links.map((link) => ({ label: `Go to ${link.textContent?.trim()}`, hint: "Page", icon: "chevron", run: () => link.click() })),
    ...buttons.map((button) => ({ label: button.dataset.command ?? "", hint: "Action", icon: "decision", run: () => button.click() })),
  ];
}

/** @param {string} url @param {AbortSignal} signal */
async function getJson(url, signal) {
  const response = await fetch(url, { signal });
  if (!response.ok || isSignedOut(response)) throw new Error(String(response.status));
  return response.json();
}

/** @param {string} url @returns {() => void} */
function goTo(url) {
  return () => location.assign(url);
}

/** Sessions by id and model, each with its compactions. "billing compaction 2" finds the second one. @param {string} query @param {AbortSignal} signal @returns {Promise<Command[]>} */
async function findSessions(query, signal) {
  const { name, number, isCompaction } = parseQuery(query);
  const { results } = await getJson(`/api/sessions/?limit=${MAX_SESSIONS}&q=${encodeURIComponent(name)}`, signal);
  /** @type {Command[]} */ const commands = [];
  for (const session of results) {
    const url = `/sessions/${session.key}/`;
    if (!isCompaction) commands.push({ label: session.id.trim() || "(blank)", hint: `Session · ${session.model || "no model"}`, icon: "trace", run: goTo(url) });
    if (!query) continue;
    for (const n of compactionNumbers(session.compaction_count, number, isCompaction)) {
      commands.push({ label: `Compaction ${n}`, hint: session.id, icon: "compaction", run: goTo(`${url}compactions/${n}/`) });
    }
  }
  return commands;
}

/** Split "billing compaction 2" into a session and a number. @param {string} query */
function parseQuery(query) {
  const match = /^(.*?)\s*\bcompactions?\b\s*#?(\d*)\s*$/i.exec(query);
  return match ? { name: match[1] ?? "", number: Number(match[2]) || 0, isCompaction: true } : { name: query, number: 0, isCompaction: false };
}

/** @param {number} count @param {number} number @param {boolean} isCompaction */
function compactionNumbers(count, number, isCompaction) {
  if (number) return number <= count ? [number] : [];
  return Array.from({ length: Math.min(count, isCompaction ? MAX_COMPACTIONS : 2) }, (_, i) => count - i);
}

/** Compactions of the session that is open. @param {string} query @param {AbortSignal} signal @returns {Promise<Command[]>} */
async function findCompactionsHere(query, signal) {
  const view = document.querySelector("session-view");
  const { number, isCompaction, name } = parseQuery(query);
  if (!(view instanceof HTMLElement) || name || (query && !isCompaction)) return [];
  const { results } = await getJson(`/api/sessions/${encodeURIComponent(view.dataset.session ?? "")}/compactions/`, signal);
  return results
    .map((/** @type {Record<string, any>} */ compaction, /** @type {number} */ i) => ({
      label: `Compaction ${i + 1} of this session`,
      hint: String(compaction.sentence ?? ""),
      icon: "compaction",
      run: goTo(`${view.dataset.url}compactions/${i + 1}/`),
      number: i + 1,
    }))
    .filter((/** @type {{ number: number }} */ command) => !number || command.number === number)
    .slice(-MAX_COMPACTIONS);
}

/** Spans, messages and summaries. @param {string} query @param {AbortSignal} signal @returns {Promise<Command[]>} */
async function findSpans(query, signal) {
  if (query.length < MIN_QUERY) return [];
  const { results } = await getJson(`/api/search/?limit=${MAX_SPANS}&q=${encodeURIComponent(query)}`, signal);
  return results
    .filter((/** @type {Record<string, any>} */ result) => result.span)
    .map((/** @type {Record<string, any>} */ result) => ({
      label: textFromMatch(result.snippet) || result.name,
      hint: `${RESULT_LABELS[result.type] ?? result.type} · ${result.session}`,
      icon: "search",
      run: goTo(result.url),
    }));
}

/**
 * Return the text of a snippet from shortly before its match, because a row of the palette is cut at its end.
 * @param {{ text: string, match: boolean }[]} snippet
 */
function textFromMatch(snippet) {
  const at = snippet.findIndex((part) => part.match);
  const before = snippet.slice(0, Math.max(0, at)).map((part) => part.text).join("");
  const start = before.length > CONTEXT_CHARS ? `…${before.slice(-CONTEXT_CHARS)}` : before;
  return start + snippet.slice(Math.max(0, at)).map((part) => part.text).join("");
}

const palette = new CommandPalette();

export function openPalette() {
  palette.open();
}
