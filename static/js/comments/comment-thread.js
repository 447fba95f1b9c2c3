// @ts-check
// <comment-thread src="…" data-people="…">: comments on a session, a compaction or a span. `data-session` and `data-after`
// open a live socket, for pages that have no other.
// <comments-button>: the button that opens the comments of a session in a dialog.
import { isConfirmed } from "../confirm-dialog.js";
import { isSignedOut, parse } from "../dom.js";
import { LiveSocket } from "../live-socket.js";
import { updateTimes } from "../relative-times.js";
import { MentionList } from "./mention-list.js";

// A thread that is on screen is read again this often, unless someone is writing in it. The live socket announces new
// comments at once.
const REFRESH_MS = 20_000;

class CommentThread extends HTMLElement {
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #timer;
  /** @type {LiveSocket | undefined} */ #socket;

  connectedCallback() {
    this.addEventListener("submit", this.#onSubmit);
    this.addEventListener("keydown", this.#onKey);
    // A thread in a closed dialog is loaded when it opens.
    if (!this.closest("dialog")) void this.load();
    this.#timer = setInterval(this.#refresh, REFRESH_MS);
    document.addEventListener("ariadne:comments", this.#refresh);
    const { session, after } = this.dataset;
    if (!session) return;
    this.#socket = new LiveSocket(`/ws/sessions/${encodeURIComponent(session)}/`, {
      after: Number(after),
      onFrame: (frame) => void (frame.type === "comments" && this.#refresh()),
    });
  }

  disconnectedCallback() {
    clearInterval(this.#timer);
    this.#socket?.close();
    document.removeEventListener("ariadne:comments", this.#refresh);
  }

  async load() {
    await this.#replace(() => fetch(this.getAttribute("src") ?? ""));
  }

  #refresh = () => {
    const fields = [...this.querySelectorAll("textarea")];
    const isWriting = fields.some((field) => field === document.activeElement || field.value !== field.defaultValue);
    if (document.visibilityState === "visible" && this.offsetParent && !isWriting) void this.load();
  };

  /** Show what a request returns. A failed one leaves what was typed. @param {() => Promise<Response>} send */
  async #replace(send) {
    this.setAttribute("aria-busy", "true");
    try {
      const response = await send();
      if (isSignedOut(response) || (!response.ok && response.status !== 422)) throw new Error(String(response.status));
      this.replaceChildren(...parse(await response.text()));
      updateTimes(this);
      for (const field of this.querySelectorAll("textarea")) new MentionList(field, this.dataset.people ?? "");
      return true;
    } catch {
      this.#showProblem();
      return false;
    } finally {
      this.removeAttribute("aria-busy");
    }
  }

  #showProblem() {
    const isLoaded = this.querySelector("textarea") !== null;
    let note = this.querySelector(":scope > [role=alert]");
    if (!note) {
      note = document.createElement("p");
      note.className = "bad small";
      note.setAttribute("role", "alert");
      if (isLoaded) this.append(note);
      else this.replaceChildren(note);
    }
    note.textContent = isLoaded ? "Can't reach the server. Your text is kept. Try again." : "Can't load the comments. Retrying…";
  }

  #onSubmit = async (/** @type {SubmitEvent} */ event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    event.preventDefault();
    if (!(await isConfirmed(event.submitter))) return;
    const headers = { "X-Requested-With": "fragment" };
    const isSent = await this.#replace(() => fetch(form.action, { method: "POST", body: new FormData(form), headers }));
    if (isSent) /** @type {HTMLElement | null} */ (this.querySelector("[data-new]"))?.focus();
  };

  #onKey = (/** @type {KeyboardEvent} */ event) => {
    const isSend = event.key === "Enter" && (event.ctrlKey || event.metaKey);
    if (isSend && event.target instanceof HTMLTextAreaElement) event.target.form?.requestSubmit();
  };
}
customElements.define("comment-thread", CommentThread);

class CommentsButton extends HTMLElement {
  connectedCallback() {
    this.querySelector(":scope > button")?.addEventListener("click", () => this.#open());
    this.querySelector("[data-close]")?.addEventListener("click", () => this.#dialog.close());
    if (this.hasAttribute("data-open")) this.#open();
  }

  get #dialog() {
    return /** @type {HTMLDialogElement} */ (this.querySelector("dialog"));
  }

  #open() {
    if (this.#dialog.open) return;
    this.#dialog.showModal();
    void customElements.whenDefined("comment-thread").then(() => {
      const thread = this.querySelector("comment-thread");
      if (thread instanceof CommentThread) void thread.load();
    });
  }
}
customElements.define("comments-button", CommentsButton);
