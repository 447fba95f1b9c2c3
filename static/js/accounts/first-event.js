// @ts-check
// <first-event>: waits for the first event of a project and then links to its session.
import { h } from "../dom.js";
import { LiveSocket } from "../live-socket.js";

class FirstEvent extends HTMLElement {
  /** @type {LiveSocket | null} */ #socket = null;

  connectedCallback() {
    this.#socket = new LiveSocket("/ws/sessions/", {
      after: Number(this.dataset.lastSeq ?? 0),
      query: () => ({ project: this.dataset.project ?? "" }),
      onFrame: (frame) => {
        const session = frame.sessions?.[0];
        if (session) this.#show(session.id, session.key);
      },
    });
  }

  disconnectedCallback() {
    this.#socket?.close();
  }

  /** @param {string} name @param {string} key */
  #show(name, key) {
    this.#socket?.close();
    const link = h("a", { href: `/sessions/${key}/`, "data-testid": "first-session" }, `Open ${name}`);
    this.replaceChildren(h("span", { class: "arrived" }, "Your first event has arrived. "), link);
  }
}

customElements.define("first-event", FirstEvent);
