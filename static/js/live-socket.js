// @ts-check
// A websocket that comes back by itself, with the last seq it saw, and can be paused with what waits counted.

/** @typedef {{ type: string, seq?: number, [key: string]: any }} Frame */
/** @typedef {"connecting" | "live" | "paused" | "behind" | "offline" | "refused"} State */

const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 10_000;
// What a paused page keeps; beyond it the page reads from the server again when it resumes.
const KEPT_FRAMES = 2_000;
// The server says something every ten seconds; a connection that is silent for this long is none.
const SILENCE_MS = 25_000;

export class LiveSocket {
  /** @type {WebSocket | null} */ #socket = null;
  /** @type {Frame[]} */ #waiting = [];
  #waitingCount = 0;
  #dropped = false;
  #retry = FIRST_RETRY_MS;
  #timer = 0;
  #watch = 0;
  #paused = false;
  #closed = false;
  /** What there is to say of the connection, whether or not the page is paused. @type {State} */ #state = "connecting";

  /**
   * @param {string} path
   * @param {{ after: number, query?: () => Record<string, string>, onFrame: (frame: Frame) => void, count?: (frame: Frame) => number }} options
   */
  constructor(path, options) {
    this.path = path;
    this.options = options;
    this.seq = options.after;
    this.#connect();
    addEventListener("online", this.#now);
    addEventListener("offline", this.#lost);
    document.addEventListener("visibilitychange", this.#now);
  }

  get paused() {
    return this.#paused;
  }

  toggle() {
    this.#paused = !this.#paused;
    if (!this.#paused) {
      const [frames, dropped] = [this.#waiting, this.#dropped];
      this.#forget();
      // More waited than was kept: read it again from where the page stopped.
      if (dropped) this.restart();
      else for (const frame of frames) this.#take(frame);
    }
    this.#say(this.#state);
  }

  /** Pause or resume by the page's button, which then says which of the two it is. @param {Element} button */
  press(button) {
    this.toggle();
    button.setAttribute("aria-pressed", String(!this.#paused));
    button.querySelector("use")?.setAttribute("href", this.#paused ? "#i-play" : "#i-pause");
    const words = button.querySelector("span");
    if (words) words.textContent = this.#paused ? "Paused" : "Live";
  }

  /** Leave and come back, for a new query. */
  restart() {
    this.#socket?.close();
    this.#socket = null;
    clearTimeout(this.#timer);
    this.#connect();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#watch);
    removeEventListener("online", this.#now);
    removeEventListener("offline", this.#lost);
    document.removeEventListener("visibilitychange", this.#now);
    this.#socket?.close();
  }

  #now = () => {
    if (!this.#closed && this.#state === "offline" && document.visibilityState === "visible") {
      clearTimeout(this.#timer);
      this.#connect();
    }
  };

  #lost = () => {
    const socket = this.#socket;
    if (this.#closed || !socket) return;
    this.#socket = null;
    socket.close();
    this.#retryLater();
  };

  #retryLater() {
    clearTimeout(this.#watch);
    clearTimeout(this.#timer);
    this.#say("offline");
    this.#timer = window.setTimeout(() => this.#connect(), this.#retry * (0.7 + 0.6 * Math.random()));
    this.#retry = Math.min(LAST_RETRY_MS, this.#retry * 2);
  }

  #listen() {
    clearTimeout(this.#watch);
    this.#watch = window.setTimeout(this.#lost, SILENCE_MS);
  }

  #connect() {
    const url = new URL(this.path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    for (const [name, value] of Object.entries(this.options.query?.() ?? {})) if (value) url.searchParams.set(name, value);
    url.searchParams.set("after", String(this.seq));
    url.searchParams.set("ack", "1");
    const socket = new WebSocket(url);
    this.#socket = socket;
    // What waits comes again: the server reads from the last seq that the page has taken.
    this.#forget();
    this.#say("connecting");
    socket.addEventListener("message", (event) => {
      if (socket !== this.#socket) return;
      const frame = /** @type {Frame} */ (JSON.parse(event.data));
      socket.send("ack");
      this.#retry = FIRST_RETRY_MS;
      this.#listen();
      if (frame.type === "beat") return;
      if (frame.type === "hello") this.#say("live");
      else if (frame.type === "behind") this.#say("behind");
      else if (this.#paused) this.#keep(frame);
      else this.#take(frame);
    });
    socket.addEventListener("close", (event) => {
      if (socket !== this.#socket || this.#closed) return;
      if ([4401, 4403, 4404].includes(event.code)) {
        // Nothing more is expected of it, so nobody waits for it to be silent.
        this.#socket = null;
        clearTimeout(this.#watch);
        this.#say("refused");
        if (event.code === 4401) location.assign(`/login/?next=${encodeURIComponent(location.pathname + location.search)}`);
        return;
      }
      this.#retryLater();
    });
    this.#listen();
  }

  /** @param {Frame} frame */
  #keep(frame) {
    this.#waitingCount += this.options.count?.(frame) ?? 1;
    if (this.#waiting.length < KEPT_FRAMES) this.#waiting.push(frame);
    else this.#dropped = true;
    this.#say(this.#state);
  }

  #forget() {
    this.#waiting = [];
    this.#waitingCount = 0;
    this.#dropped = false;
  }

  /** @param {Frame} frame */
  #take(frame) {
    if (frame.seq != null) {
      if (frame.seq <= this.seq && !["sessions", "moved"].includes(frame.type)) return;
      this.seq = frame.seq;
    }
    if (this.#state === "behind") this.#say("live");
    this.options.onFrame(frame);
  }

  /** @param {State} state */
  #say(state) {
    this.#state = state;
    const shown = this.#paused && state !== "offline" && state !== "refused" ? "paused" : state;
    document.dispatchEvent(new CustomEvent("ariadne:live", { detail: { state: shown, waiting: this.#waitingCount } }));
  }
}
