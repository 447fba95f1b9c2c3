// Reconnecting and pausing of the live websocket.
import assert from "node:assert/strict";
import { mock, test } from "node:test";

/** @type {FakeSocket[]} */ const sockets = [];

class FakeSocket extends EventTarget {
  constructor(url) {
    super();
    this.url = new URL(url);
    sockets.push(this);
  }
  send() {}
  close() {}
  receive(frame) {
    this.dispatchEvent(Object.assign(new Event("message"), { data: JSON.stringify(frame) }));
  }
  closeWith(code) {
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

function openSocket() {
  sockets.length = 0;
  /** @type {number[]} */ const delivered = [];
  /** @type {[string, number][]} */ const states = [];
  document.addEventListener("ariadne:live", (event) => states.push([event.detail.state, event.detail.waiting]));
  const socket = new LiveSocket("/ws/tail/", { after: 3, count: (frame) => frame.events.length, onFrame: (frame) => delivered.push(...frame.events) });
  sockets[0].receive({ type: "hello", seq: 3 });
  return { socket, delivered, states };
}

test("frames buffered during a pause are delivered once after a reconnect", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { socket, delivered, states } = openSocket();
  socket.toggle();
  sockets[0].receive({ type: "events", seq: 5, events: [4, 5] });
  assert.deepEqual(states.at(-1), ["paused", 2]);
  sockets[0].closeWith(1006);
  assert.equal(states.at(-1)[0], "offline");
  mock.timers.tick(1_000);
  assert.equal(sockets[1].url.searchParams.get("after"), "3");
  sockets[1].receive({ type: "hello", seq: 3 });
  sockets[1].receive({ type: "events", seq: 7, events: [4, 5, 6, 7] });
  assert.deepEqual(states.at(-1), ["paused", 4]);
  socket.toggle();
  assert.deepEqual(delivered, [4, 5, 6, 7]);
  assert.deepEqual(states.at(-1), ["live", 0]);
  socket.close();
  mock.timers.reset();
});

test("a refused socket does not reconnect", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { socket, states } = openSocket();
  sockets[0].closeWith(4403);
  mock.timers.tick(120_000);
  socket.toggle();
  socket.toggle();
  assert.equal(sockets.length, 1);
  assert.equal(states.at(-1)[0], "refused");
  socket.close();
  mock.timers.reset();
});
