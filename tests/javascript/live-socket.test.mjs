// The page's side of a websocket: what waits, what comes again, what is over.
import assert from "node:assert/strict";
import { mock, test } from "node:test";

/** @type {FakeSocket[]} */ const made = [];

class FakeSocket extends EventTarget {
  constructor(url) {
    super();
    this.url = new URL(url);
    made.push(this);
  }
  send() {}
  close() {}
  say(frame) {
    this.dispatchEvent(Object.assign(new Event("message"), { data: JSON.stringify(frame) }));
  }
  end(code) {
    this.dispatchEvent(Object.assign(new Event("close"), { code }));
  }
}

const page = new EventTarget();
Object.assign(globalThis, {
  window: globalThis,
  document: Object.assign(new EventTarget(), { visibilityState: "visible" }),
  location: { href: "http://host/tail/" },
  WebSocket: FakeSocket,
  addEventListener: page.addEventListener.bind(page),
  removeEventListener: page.removeEventListener.bind(page),
});
const { LiveSocket } = await import("../../static/js/live-socket.js");

function opened() {
  made.length = 0;
  /** @type {number[]} */ const taken = [];
  /** @type {[string, number][]} */ const said = [];
  document.addEventListener("ariadne:live", (event) => said.push([event.detail.state, event.detail.waiting]));
  const socket = new LiveSocket("/ws/tail/", { after: 3, count: (frame) => frame.events.length, onFrame: (frame) => taken.push(...frame.events) });
  made[0].say({ type: "hello", seq: 3 });
  return { socket, taken, said };
}

test("what waits when a connection is lost comes again, and is taken once", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { socket, taken, said } = opened();
  socket.toggle();
  made[0].say({ type: "events", seq: 5, events: [4, 5] });
  assert.deepEqual(said.at(-1), ["paused", 2]);
  made[0].end(1006);
  assert.equal(said.at(-1)[0], "offline");
  mock.timers.tick(1_000);
  assert.equal(made[1].url.searchParams.get("after"), "3");
  made[1].say({ type: "hello", seq: 3 });
  made[1].say({ type: "events", seq: 7, events: [4, 5, 6, 7] });
  assert.deepEqual(said.at(-1), ["paused", 4]);
  socket.toggle();
  assert.deepEqual(taken, [4, 5, 6, 7]);
  assert.deepEqual(said.at(-1), ["live", 0]);
  socket.close();
  mock.timers.reset();
});

test("who is refused is not asked for again, and told nothing else", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { socket, said } = opened();
  made[0].end(4403);
  mock.timers.tick(120_000);
  socket.toggle();
  socket.toggle();
  assert.equal(made.length, 1);
  assert.equal(said.at(-1)[0], "refused");
  socket.close();
  mock.timers.reset();
});
