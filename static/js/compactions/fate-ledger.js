// @ts-check
// <fate-ledger>: shows the first words of each message, filters by fate and text, and opens a message as a chat bubble.
// Only the rows that are on screen are in the document, because a ledger can have thousands.
import "../json-view.js";
import { afterPaint, copy, fetchFragment, h, icon, isSignedOut, setText } from "../dom.js";
import { pluralize, tokens } from "../format.js";
import { WindowedList } from "../windowed-list.js";

/** @typedef {{position: number, id: string, hash: string, role: string, tokens: number, fate: string, rule: string, into: string, inferred: boolean, standIn: string}} Entry */

// An open message is higher than a row.
const OVERSCAN_ROWS = 20;
// Ledgers up to this length are drawn completely.
const MAX_COMPLETE = 150;
const COLUMNS = "5";
/** Where a message of each fate went. @type {Record<string, string>} */
const DESTINATIONS = {
  kept: "It stayed in the prompt.",
  pinned: "It stayed in the prompt, pinned.",
  truncated: "It stayed in the prompt without its middle.",
  cleared: "Its output was cleared. The call stayed in the prompt.",
  dropped: "It left the prompt, and nothing replaces it.",
};

class FateLedger extends HTMLElement {
  /** @type {Entry[]} */ #entries = [];
  /** Entries that match the filters. @type {Entry[]} */ #shown = [];
  /** First words of messages by hash. @type {Record<string, string>} */ #previews = {};
  #hasAllPreviews = false;
  /** Open messages by position. @type {Map<number, HTMLElement>} */ #open = new Map();
  /** Positions of the messages that a line of the summary came from. @type {Set<number>} */ #sources = new Set();
  #target = "";
  #isPrinting = false;
  /** @type {WindowedList<Entry>} */ #list = new WindowedList({
    scroller: /** @type {HTMLElement} */ (this.querySelector(".ledger-scroll")),
    body: this.#body,
    height: "--ledger-row",
    overscan: OVERSCAN_ROWS,
    create: () => new LedgerRow(this.#template, (entry) => this.#stateOf(entry)),
    keyOf: (entry) => entry.position,
    isComplete: () => this.#isPrinting || this.#shown.length <= MAX_COMPLETE,
    empty: h("tr", {}, h("td", { class: "empty", colspan: COLUMNS }, "No messages match these filters")),
  });

  connectedCallback() {
    this.#entries = this.#readEntries();
    this.#shown = this.#entries;
    this.#previews = JSON.parse(this.querySelector("#ledger-texts")?.textContent ?? "{}");
    // The page has only the first rows. The others have their place from the beginning.
    this.#list.adoptItems(this.#entries);
    addEventListener("hashchange", this.#showTarget);
    addEventListener("beforeprint", this.#print);
    addEventListener("afterprint", this.#print);
    this.addEventListener("click", this.#onClick);
    this.addEventListener("input", () => this.#filter());
    void this.#start();
  }

  /** Show what the address names. Without it, the page has the rows of the first paint, and the others can wait. */
  async #start() {
    const fates = new URLSearchParams(location.search).getAll("fate");
    if (fates.length) {
      for (const chip of this.#chips) setPressed(chip, fates.includes(chip.dataset.fate ?? ""));
      this.#filter();
    }
    this.#showTarget();
    await afterPaint();
    this.#list.start();
    await this.#loadPreviews();
  }

  disconnectedCallback() {
    this.#list.stop();
    removeEventListener("hashchange", this.#showTarget);
    removeEventListener("beforeprint", this.#print);
    removeEventListener("afterprint", this.#print);
  }

  /** Return the message with an id and its first words. @param {string} id */
  message(id) {
    const entry = this.#entries.find((candidate) => candidate.id === id);
    return entry ? { ...entry, preview: this.#previewOf(entry) } : null;
  }

  /** Mark the messages that a line of the summary came from. @param {string[]} ids */
  markSources(ids) {
    this.#sources = new Set(this.#entries.filter((entry) => ids.includes(entry.id)).map((entry) => entry.position));
    this.#list.redraw();
  }

  #print = (/** @type {Event} */ event) => {
    this.#isPrinting = event.type === "beforeprint";
    this.#list.redraw();
  };

  /** @returns {Entry[]} */
  #readEntries() {
    return JSON.parse(this.querySelector("#ledger-rows")?.textContent ?? "[]").map(
      (/** @type {any[]} */ [id, hash, role, count, fate, rule, into, inferred, standIn], /** @type {number} */ position) => ({
        position, id, hash, role, tokens: count, fate, rule, into, inferred, standIn,
      }),
    );
  }

  /** Load the first words of the messages that the page does not contain. */
  async #loadPreviews() {
    const url = this.dataset.previews;
    if (!url || this.#entries.every((entry) => entry.hash in this.#previews)) {
      this.#hasAllPreviews = true;
      return;
    }
    try {
      const response = await fetch(url);
      if (response.ok && !isSignedOut(response)) Object.assign(this.#previews, await response.json());
    } catch {
      // The rows say that their text is missing. A click on one shows an error.
    }
    this.#hasAllPreviews = true;
    this.#list.invalidate();
  }

  /** @param {Entry} entry */
  #previewOf(entry) {
    const preview = this.#previews[entry.hash];
    if (preview !== undefined) return preview || "Empty message";
    if (entry.standIn) return entry.standIn;
    if (!this.dataset.previews) return "hidden";
    return this.#hasAllPreviews ? "Text not stored" : "Loading…";
  }

  get #body() {
    return /** @type {HTMLElement} */ (this.querySelector("tbody"));
  }

  get #template() {
    const template = /** @type {HTMLTemplateElement} */ (this.querySelector("template"));
    return /** @type {HTMLElement} */ (template.content.firstElementChild);
  }

  get #chips() {
    return /** @type {HTMLElement[]} */ ([...this.querySelectorAll(".fate-chip")]);
  }

  #onClick = async (/** @type {MouseEvent} */ event) => {
    const target = event.target instanceof Element ? event.target : null;
    const chip = target?.closest(".fate-chip");
    if (chip instanceof HTMLElement) this.#toggleFate(chip, event.altKey || event.shiftKey);
    const hash = target?.closest(".copy-chip");
    if (hash instanceof HTMLElement) await copy(hash.dataset.copy ?? "");
    const row = target?.closest("tr[data-position]");
    if (row instanceof HTMLElement && !target?.closest("a")) await this.#toggle(Number(row.dataset.position));
  };

  /**
   * Toggle one fate. While all fates are shown, a click shows only that one, unless a modifier key is held. When the last
   * fate is turned off, all are shown again.
   * @param {HTMLElement} chip
   * @param {boolean} hasModifier
   */
  #toggleFate(chip, hasModifier) {
    const chips = this.#chips;
    if (chips.every(isPressed) && !hasModifier) for (const other of chips) setPressed(other, other === chip);
    else setPressed(chip, !isPressed(chip));
    if (!chips.some(isPressed)) for (const other of chips) setPressed(other, true);
    this.#filter();
    this.#updateAddress();
  }

  /** Keep the selected fates in the URL so that the view can be shared. */
  #updateAddress() {
    const chips = this.#chips;
    const url = new URL(location.href);
    url.searchParams.delete("fate");
    if (!chips.every(isPressed)) for (const chip of chips.filter(isPressed)) url.searchParams.append("fate", chip.dataset.fate ?? "");
    history.replaceState(null, "", url);
  }

  #filter() {
    const fates = new Set(this.#chips.filter(isPressed).map((chip) => chip.dataset.fate));
    const term = this.querySelector("input")?.value.trim().toLowerCase() ?? "";
    this.#shown = this.#entries.filter((entry) => fates.has(entry.fate) && (term === "" || this.#searchText(entry).includes(term)));
    this.#open.clear();
    this.#list.setItems(this.#shown);
  }

  /** @param {Entry} entry */
  #searchText(entry) {
    return `${this.#previews[entry.hash] ?? ""} ${entry.id} ${entry.role} ${entry.fate} ${entry.rule}`.toLowerCase();
  }

  /** What the row of a message shows beside the message. @param {Entry} entry @returns {RowState} */
  #stateOf(entry) {
    return {
      preview: this.#previewOf(entry),
      isMissing: !(entry.hash in this.#previews),
      isTarget: this.#target === `m-${entry.id}`,
      isSource: this.#sources.has(entry.position),
      bubble: this.#open.get(entry.position),
    };
  }

  /** Scroll to the message that the address names, such as #m-17. */
  #showTarget = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    if (!id.startsWith("m-")) return;
    let at = this.#shown.findIndex((entry) => `m-${entry.id}` === id);
    if (at < 0 && this.#entries.some((entry) => `m-${entry.id}` === id)) {
      for (const chip of this.#chips) setPressed(chip, true);
      this.#shown = this.#entries;
      at = this.#shown.findIndex((entry) => `m-${entry.id}` === id);
    }
    if (at < 0) return;
    this.#target = id;
    this.#list.items = this.#shown;
    this.#list.redraw();
    if (this.#shown.length > MAX_COMPLETE) this.#list.scrollToTop(at - 5);
    this.#list.redraw();
    // The center, because sticky headers cover the top of the page and of the table.
    document.getElementById(id)?.scrollIntoView({ block: "center" });
  };

  /** Open a message as a bubble below its row, or close it. @param {number} position */
  async #toggle(position) {
    const entry = this.#entries[position];
    if (!entry) return;
    if (this.#open.delete(position)) {
      this.#list.redraw();
      return;
    }
    const content = h("div", { "aria-busy": "true" }, h("p", { class: "faint" }, "Loading…"));
    this.#open.set(position, h("tr", { class: "ledger-bubble" }, h("td", { colspan: COLUMNS }, bubble(entry, content))));
    this.#list.redraw();
    content.replaceChildren(...(await this.#content(entry)));
    content.removeAttribute("aria-busy");
  }

  /** @param {Entry} entry @returns {Promise<(Node | string)[]>} */
  async #content(entry) {
    const note = (/** @type {string} */ text) => [h("p", { class: "soft" }, text)];
    if (!this.dataset.previews) return note("The text is hidden. You don't have permission to view payloads.");
    if (!entry.hash) return note("The text of this message isn't stored.");
    const url = `/sessions/${encodeURIComponent(this.dataset.session ?? "")}/messages/${entry.hash}/`;
    return (await fetchFragment(url)) ?? note("Couldn't load this message. Close it and try again.");
  }
}

/** @typedef {{ preview: string, isMissing: boolean, isTarget: boolean, isSource: boolean, bubble: HTMLElement | undefined }} RowState */

/** The row of a message and, if it is open, its bubble. */
class LedgerRow {
  #row;
  #stateOf;
  /** @type {Element[]} */ elements;

  /** @param {HTMLElement} template as the server renders rows @param {(entry: Entry) => RowState} stateOf */
  constructor(template, stateOf) {
    this.#row = /** @type {HTMLElement} */ (template.cloneNode(true));
    this.#stateOf = stateOf;
    this.elements = [this.#row];
  }

  /** @param {Entry} entry */
  show(entry) {
    const { preview, isMissing, isTarget, isSource, bubble } = this.#stateOf(entry);
    const row = this.#row;
    row.id = `m-${entry.id}`;
    Object.assign(row.dataset, { fate: entry.fate, hash: entry.hash, position: entry.position });
    row.classList.toggle("target", isTarget);
    row.classList.toggle("source", isSource);
    const [position, role, message, count, fate] = row.children;
    setText(position, String(entry.position + 1));
    setText(role, entry.role);
    const toggle = /** @type {HTMLElement} */ (message.firstElementChild);
    setText(toggle, preview);
    toggle.toggleAttribute("data-missing", isMissing);
    toggle.setAttribute("aria-expanded", String(Boolean(bubble)));
    setText(count, tokens(entry.tokens));
    for (const mark of fate.querySelectorAll("[data-fate]")) /** @type {HTMLElement} */ (mark).dataset.fate = entry.fate;
    const word = /** @type {Element} */ (fate.querySelector(".fate"));
    word.replaceChildren(...word.children, entry.fate);
    fate.replaceChildren(word, ...(entry.inferred ? [" ", h("span", { class: "tag" }, "inferred")] : []));
    this.elements = bubble ? [row, bubble] : [row];
  }
}

customElements.define("fate-ledger", FateLedger);

/** Return a message as a chat bubble: the rule, the tokens, the hash and where it went. @param {Entry} entry @param {HTMLElement} content */
function bubble(entry, content) {
  const hash = entry.hash
    ? h("button", { class: "copy-chip", type: "button", title: `Copy ${entry.hash}`, "aria-label": "Copy the hash", "data-copy": entry.hash },
        entry.hash.slice(0, 10), icon("copy"))
    : null;
  return h(
    "div",
    { class: "bubble", "data-role": entry.role },
    h("div", { class: "bubble-head" },
      h("span", { class: "role" }, entry.role || "message"),
      h("span", { class: "soft small num" }, pluralize(entry.tokens, "token")),
      h("span", { class: "soft small", "data-slot": "rule" }, `Rule: ${entry.rule || "none given"}`),
      hash),
    content,
    h("p", { class: "soft small", "data-slot": "destination" }, ...destination(entry)),
  );
}

/** @param {Entry} entry @returns {(Node | string)[]} */
function destination(entry) {
  const note = entry.inferred ? " This was inferred from the agent's log." : "";
  const into = entry.into || "";
  if (entry.fate === "summarized") {
    return ["It was merged into ", h("a", { href: "#summary" }, into ? cut(into, 40) : "the summary"), `.${note}`];
  }
  if (entry.fate === "externalized") return [`It was stored outside the prompt${into ? ` as ${into}` : ""}. A pointer stayed.${note}`];
  return [`${DESTINATIONS[entry.fate] ?? `Its fate is ${entry.fate || "unknown"}.`}${note}`];
}

/** @param {HTMLElement} chip */
function isPressed(chip) {
  return chip.getAttribute("aria-pressed") === "true";
}

/** @param {HTMLElement} chip @param {boolean} value */
function setPressed(chip, value) {
  chip.setAttribute("aria-pressed", String(value));
}

/** Shorten a text like Django's `truncatechars`. @param {string} text @param {number} length */
function cut(text, length) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}
