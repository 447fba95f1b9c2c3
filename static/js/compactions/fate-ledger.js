// @ts-check
// <fate-ledger>: shows the first words of each message, filters by fate and text, and opens a message as a chat bubble.
// Only the rows that are on screen are in the document, because a ledger can have thousands.
import "../json-view.js";
import { afterPaint, copy, fetchFragment, h, icon, isSignedOut } from "../dom.js";
import { pluralize, tokens } from "../format.js";

/** @typedef {{position: number, id: string, hash: string, role: string, tokens: number, fate: string, rule: string, into: string, inferred: boolean, standIn: string}} Entry */

const OVERSCAN_ROWS = 20;
const WINDOW_ROWS = 80;
// Ledgers up to this length are drawn completely.
const MAX_ROWS = 150;
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
  /** Height of a closed row in pixels, from ledger.css. */ #rowHeight = 30;
  #first = 0;
  #target = "";
  #isPrinting = false;

  connectedCallback() {
    this.#entries = this.#readEntries();
    this.#shown = this.#entries;
    this.#previews = JSON.parse(this.querySelector("#ledger-texts")?.textContent ?? "{}");
    // The page has only the first rows. The others have their place from the beginning.
    this.#body.append(this.#gap(this.#entries.length - this.#body.children.length));
    this.#scroller.addEventListener("scroll", () => this.#draw(), { passive: true });
    addEventListener("hashchange", this.#showTarget);
    addEventListener("beforeprint", this.#print);
    addEventListener("afterprint", this.#print);
    addEventListener("resize", this.#measure);
    this.addEventListener("click", this.#onClick);
    this.addEventListener("input", () => this.#filter());
    void this.#start();
  }

  /** Show what the address names. Without it, the page has the rows of the first paint, and the others can wait. */
  async #start() {
    const fates = new URLSearchParams(location.search).getAll("fate");
    if (fates.length || location.hash) this.#measure();
    if (fates.length) {
      for (const chip of this.#chips) setPressed(chip, fates.includes(chip.dataset.fate ?? ""));
      this.#filter();
    }
    this.#showTarget();
    await afterPaint();
    this.#measure();
    await this.#loadPreviews();
  }

  disconnectedCallback() {
    removeEventListener("resize", this.#measure);
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
    for (const row of this.#body.querySelectorAll("tr[data-position]")) {
      row.classList.toggle("source", this.#sources.has(Number(/** @type {HTMLElement} */ (row).dataset.position)));
    }
  }

  /** Draw all rows with the height that the width of the page gives them. */
  #measure = () => {
    this.#rowHeight = parseFloat(getComputedStyle(this).getPropertyValue("--ledger-row")) || 30;
    this.#draw(true);
  };

  #print = (/** @type {Event} */ event) => {
    this.#isPrinting = event.type === "beforeprint";
    this.#draw(true);
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
    this.#draw(true);
  }

  /** @param {Entry} entry */
  #previewOf(entry) {
    const preview = this.#previews[entry.hash];
    if (preview !== undefined) return preview || "Empty message";
    if (entry.standIn) return entry.standIn;
    if (!this.dataset.previews) return "hidden";
    return this.#hasAllPreviews ? "Text not stored" : "Loading…";
  }

  get #scroller() {
    return /** @type {HTMLElement} */ (this.querySelector(".ledger-scroll"));
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
    this.#draw(true);
  }

  /** @param {Entry} entry */
  #searchText(entry) {
    return `${this.#previews[entry.hash] ?? ""} ${entry.id} ${entry.role} ${entry.fate} ${entry.rule}`.toLowerCase();
  }

  /**
   * Draw the rows around the scroll position, between two empty rows that are as high as the others. A short ledger is
   * drawn completely.
   * @param {boolean} isForced draw again even if the same rows are visible
   */
  #draw(isForced = false) {
    const count = this.#shown.length;
    const isWindow = count > MAX_ROWS && !this.#isPrinting;
    const top = Math.max(0, Math.floor(this.#scroller.scrollTop / this.#rowHeight) - OVERSCAN_ROWS);
    // Whole steps, so that most scroll events change nothing.
    const first = isWindow ? Math.min(top - (top % OVERSCAN_ROWS), Math.max(0, count - WINDOW_ROWS)) : 0;
    if (!isForced && first === this.#first) return;
    this.#first = first;
    const last = isWindow ? Math.min(count, first + WINDOW_ROWS) : count;
    const rows = this.#shown.slice(first, last).flatMap((entry) => this.#rows(entry));
    const empty = h("tr", {}, h("td", { class: "empty", colspan: COLUMNS }, "No messages match these filters"));
    const focused = this.#focusedPosition();
    this.#body.replaceChildren(...(isWindow ? [this.#gap(first), ...rows, this.#gap(count - last)] : count ? rows : [empty]));
    if (focused !== null) this.#toggleOf(focused)?.focus({ preventScroll: true });
  }

  /** Return an empty row as high as `count` rows. @param {number} count */
  #gap(count) {
    const row = h("tr", { class: "gap", "aria-hidden": "true" }, h("td", { colspan: COLUMNS }));
    row.style.height = `calc(${count} * var(--ledger-row))`;
    return row;
  }

  #focusedPosition() {
    const row = document.activeElement?.closest("fate-ledger tr[data-position]");
    return row instanceof HTMLElement ? Number(row.dataset.position) : null;
  }

  /** @param {number} position */
  #toggleOf(position) {
    return /** @type {HTMLElement | null} */ (this.#body.querySelector(`tr[data-position="${position}"] .row-toggle`));
  }

  /** Return the row of a message and, if it is open, its bubble. @param {Entry} entry */
  #rows(entry) {
    const row = /** @type {HTMLElement} */ (this.#template.cloneNode(true));
    row.id = `m-${entry.id}`;
    Object.assign(row.dataset, { fate: entry.fate, hash: entry.hash, position: entry.position });
    row.classList.toggle("target", this.#target === row.id);
    row.classList.toggle("source", this.#sources.has(entry.position));
    const [position, role, message, count, fate] = row.children;
    position.textContent = String(entry.position + 1);
    role.textContent = entry.role;
    const toggle = /** @type {HTMLElement} */ (message.firstElementChild);
    toggle.textContent = this.#previewOf(entry);
    toggle.toggleAttribute("data-missing", !(entry.hash in this.#previews));
    count.textContent = tokens(entry.tokens);
    for (const mark of fate.querySelectorAll("[data-fate]")) /** @type {HTMLElement} */ (mark).dataset.fate = entry.fate;
    fate.querySelector(".fate")?.append(entry.fate);
    if (entry.inferred) fate.append(" ", h("span", { class: "tag" }, "inferred"));
    const bubble = this.#open.get(entry.position);
    toggle.setAttribute("aria-expanded", String(Boolean(bubble)));
    return bubble ? [row, bubble] : [row];
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
    if (this.#shown.length > MAX_ROWS) this.#scroller.scrollTop = (at - 5) * this.#rowHeight;
    this.#draw(true);
    // The center, because sticky headers cover the top of the page and of the table.
    document.getElementById(id)?.scrollIntoView({ block: "center" });
  };

  /** Open a message as a bubble below its row, or close it. @param {number} position */
  async #toggle(position) {
    const entry = this.#entries[position];
    if (!entry) return;
    if (this.#open.delete(position)) {
      this.#draw(true);
      return;
    }
    const content = h("div", { "aria-busy": "true" }, h("p", { class: "faint" }, "Loading…"));
    this.#open.set(position, h("tr", { class: "ledger-bubble" }, h("td", { colspan: COLUMNS }, bubble(entry, content))));
    this.#draw(true);
    this.#toggleOf(position)?.focus({ preventScroll: true });
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
