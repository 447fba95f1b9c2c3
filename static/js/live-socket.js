// @ts-check
// A websocket that reconnects from the last sequence number it delivered, and that can be paused.

/** @typedef {{ type: string, seq?: number, [key: string]: any }} Frame */
/** @typedef {"connecting" | "live" | "paused" | "behind" | "offline" | "refused"} State */
/**
 * `count` returns the number of events in a frame, for the counter of a paused page.
 * @typedef {{ after: number, query?: () => Record<string, string>, onFrame: (frame: Frame) => void,
 *   count?: (frame: Frame) => number }} Options
 */

const MIN_RETRY_MS = 250;
const MAX_RETRY_MS = 10_000;
// Frames buffered while paused. If more arrive, the page reads them from the server again when it resumes.
const MAX_BUFFERED_FRAMES = 2_000;
// The server sends a heartbeat every ten seconds. After this much silence the connection counts as lost.
const SILENCE_MS = 25_000;
const UNAUTHENTICATED = 4401;
// Close codes after which a retry would not help.
const REFUSALS = [UNAUTHENTICATED, 4403, 4404];
// Frames that are delivered even if their sequence number isn't new.
const UNORDERED_TYPES = ["sessions", "moved", "comments"];

export class LiveSocket {
  /** @type {WebSocket | null} */ #socket = null;
  /** @type {Frame[]} */ #buffer = [];
  #bufferedCount = 0;
  #hasOverflowed = false;
  #retryMs = MIN_RETRY_MS;
  #retryTimer = 0;
  #silenceTimer = 0;
  #isPaused = false;
  #isClosed = false;
  /** State of the connection, independent of a pause. @type {State} */ #state = "connecting";

  /** @param {string} path @param {Options} options */
  constructor(path, options) {
    this.path = path;
    this.options = options;
    this.seq = options.after;
    this.#connect();
    addEventListener("online", this.#retryNow);
    addEventListener("offline", this.#onConnectionLost);
    document.addEventListener("visibilitychange", this.#retryNow);
  }

  get isPaused() {
    return this.#isPaused;
  }

  /** Pause, or resume and deliver the buffered frames. */
  toggle() {
    this.#isPaused = !this.#isPaused;
    if (!this.#isPaused) {
      const [frames, hasOverflowed] = [this.#buffer, this.#hasOverflowed];
      this.#clearBuffer();
      if (hasOverflowed) this.restart();
      else for (const frame of frames) this.#deliver(frame);
    }
    this.#setState(this.#state);
  }

  /** Pause or resume from the page's live button, and update the button. @param {Element} button */
  toggleFrom(button) {
    this.toggle();
    button.setAttribute("aria-pressed", String(!this.#isPaused));
    button.querySelector("use")?.setAttribute("href", this.#isPaused ? "#i-play" : "#i-pause");
    const label = button.querySelector("span");
    if (label) label.textContent = this.#isPaused ? "Paused" : "Live";
  }

  /** Reconnect, for example with a new query. */
  restart() {
    this.#socket?.close();
    this.#socket = null;
    clearTimeout(this.#retryTimer);
    this.#connect();
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#silenceTimer);
    removeEventListener("online", this.#retryNow);
    removeEventListener("offline", this.#onConnectionLost);
    document.removeEventListener("visibilitychange", this.#retryNow);
    this.#socket?.close();
  }

  #retryNow = () => {
    if (!this.#isClosed && this.#state === "offline" && document.visibilityState === "visible") {
      clearTimeout(this.#retryTimer);
      this.#connect();
    }
  };

  #onConnectionLost = () => {
    const socket = this.#socket;
    if (this.#isClosed || !socket) return;
    this.#socket = null;
    socket.close();
    this.#scheduleRetry();
  };

  #scheduleRetry() {
    clearTimeout(this.#silenceTimer);
    clearTimeout(this.#retryTimer);
    this.#setState("offline");
    // Jitter keeps pages from reconnecting all at once after a server restart.
    this.#retryTimer = window.setTimeout(() => this.#connect(), this.#retryMs * (0.7 + 0.6 * Math.random()));
    this.#retryMs = Math.min(MAX_RETRY_MS, this.#retryMs * 2);
  }

  #restartSilenceTimer() {
    clearTimeout(this.#silenceTimer);
    this.#silenceTimer = window.setTimeout(this.#onConnectionLost, SILENCE_MS);
  }

  #connect() {
    const socket = new WebSocket(this.#url());
    this.#socket = socket;
    // The server sends the buffered frames again, because they come after the last delivered one.
    this.#clearBuffer();
    this.#setState("connecting");
    socket.addEventListener("message", (event) => {
      if (socket !== this.#socket) return;
      socket.send("ack");
      this.#retryMs = MIN_RETRY_MS;
      this.#restartSilenceTimer();
      this.#onFrame(/** @type {Frame} */ (JSON.parse(event.data)));
    });
    socket.addEventListener("close", (event) => {
      if (socket !== this.#socket || this.#isClosed) return;
      if (REFUSALS.includes(event.code)) this.#onRefused(event.code);
      else this.#scheduleRetry();
    });
    this.#restartSilenceTimer();
  }

  #url() {
    const url = new URL(this.path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    for (const [name, value] of Object.entries(this.options.query?.() ?? {})) if (value) url.searchParams.set(name, value);
    url.searchParams.set("after", String(this.seq));
    url.searchParams.set("ack", "1");
    return url;
  }

  /** @param {Frame} frame */
  #onFrame(frame) {
    if (frame.type === "beat") return;
    if (frame.type === "hello") this.#setState("live");
    else if (frame.type === "behind") this.#setState("behind");
    else if (this.#isPaused && frame.type !== "comments") this.#keep(frame);
    else this.#deliver(frame);
  }

  /** @param {number} code */
  #onRefused(code) {
    this.#socket = null;
    clearTimeout(this.#silenceTimer);
    this.#setState("refused");
    if (code === UNAUTHENTICATED) location.assign(`/login/?next=${encodeURIComponent(location.pathname + location.search)}`);
  }

  /** Buffer a frame of a paused page. @param {Frame} frame */
  #keep(frame) {
    this.#bufferedCount += this.options.count?.(frame) ?? 1;
    if (this.#buffer.length < MAX_BUFFERED_FRAMES) this.#buffer.push(frame);
    else this.#hasOverflowed = true;
    this.#setState(this.#state);
  }

  #clearBuffer() {
    this.#buffer = [];
    this.#bufferedCount = 0;
    this.#hasOverflowed = false;
  }

  /** @param {Frame} frame */
  #deliver(frame) {
    if (frame.seq != null) {
      if (frame.seq <= this.seq && !UNORDERED_TYPES.includes(frame.type)) return;
      this.seq = frame.seq;
    }
    if (this.#state === "behind") this.#setState("live");
    this.options.onFrame(frame);
  }

  /** Set the state of the connection and publish the state to show. @param {State} state */
  #setState(state) {
    this.#state = state;
    const shown = this.#isPaused && state !== "offline" && state !== "refused" ? "paused" : state;
    document.dispatchEvent(new CustomEvent("ariadne:live", { detail: { state: shown, waiting: this.#bufferedCount } }));
  }
}
