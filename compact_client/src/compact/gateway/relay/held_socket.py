"""A websocket in compact mode: each request for a response waits for the compactor, as over HTTP.

Codex sends its requests as messages of one connection. Such a message is an exchange for the compactor, and what the
provider sends after it is the answer. All other frames pass in their order. The connection has no compression, because
a compressed message depends on those before it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from compact.gateway.frames import Kind, Rewrite, Verdict
from compact.gateway.http1.heads import RequestHead
from compact.gateway.relay.held_request import MAX_BODY_BYTES, MAX_HELD_BYTES, STREAM_S
from compact.gateway.upstreams import Route, Upstream
from compact.gateway.websocket_frames import (
    BINARY,
    CONTINUATION,
    FIN,
    TEXT,
    FrameSplitter,
    FrameTooLarge,
    WebsocketFrame,
    encode_text,
)

if TYPE_CHECKING:
    from compact.gateway.relay.process import Relay

EXTENSIONS_HEADER = "sec-websocket-extensions"
_CREATE = b'"response.create"'
_TYPE_BYTES = 200
"""The type of a message is at its beginning or at its end."""
_STREAM = {"status": 200, "headers": [["content-type", "text/event-stream"]]}


class Owner(Protocol):
    """The connection of the agent."""

    def send_frames(self, data: bytes, note: dict[str, str] | None = None) -> None:
        """Send bytes to the upstream. `note` is for the recorder."""

    def give_frames(self, data: bytes) -> None:
        """Give bytes of the upstream to the agent."""


class HeldSocket:
    """The messages of one connection."""

    def __init__(self, owner: Owner, relay: Relay, head: RequestHead, route: Route, upstream: Upstream, target: str):
        self.route = route
        self.session = ""
        self.rewrite: Rewrite = "none"
        self._owner = owner
        self._relay = relay
        self._compactor = relay.compactor
        self._payload = {**relay.open_payload(head, route, upstream, target), "method": "POST"}
        self._from_agent: FrameSplitter | None = FrameSplitter(max_bytes=MAX_BODY_BYTES, keeps_raw=True)
        self._from_upstream = FrameSplitter(max_bytes=MAX_BODY_BYTES)
        self._message: list[WebsocketFrame] = []
        self._answer: list[bytes] = []
        self._queue: deque[tuple[bytes, bytes]] = deque()
        """The bytes that the agent has sent after a request that waits, each with the message if it is a request."""
        self._waiting = 0
        """The exchange of the request that waits."""
        self._raw = b""
        self._open = 0
        """The exchange whose answer is being read."""
        self._held: list[bytes] | None = None
        """The bytes of an answer that may be an overflow."""
        self._held_size = 0

    def close(self) -> None:
        """Forget the requests. The connection has ended."""
        for exchange in {self._waiting, self._open} - {0}:
            self._compactor.forget(exchange)
            self._compactor.add_json(Kind.ABORTED, exchange, {"by": "client", "reason": "The connection has ended."})
        self._waiting = self._open = 0

    # From the agent

    def feed_agent(self, data: bytes) -> None:
        """Read bytes of the agent."""
        if self._from_agent is None:
            self._owner.send_frames(data)
            return
        try:
            for frame in self._from_agent.feed(data):
                self._take(frame)
        except FrameTooLarge:
            self._stop_reading()

    def _take(self, frame: WebsocketFrame) -> None:
        if frame.kind > BINARY:
            self._pass(frame.raw)
            return
        self._message = [*self._message, frame] if frame.kind == CONTINUATION else [frame]
        if not frame.first & FIN:
            return
        frames, self._message = self._message, []
        raw = b"".join(item.raw for item in frames)
        message = b"".join(item.payload for item in frames) if frames[0].kind == TEXT else b""
        is_request = _CREATE in message[:_TYPE_BYTES] or _CREATE in message[-_TYPE_BYTES:]
        self._pass(raw, message if is_request else b"")

    def _pass(self, raw: bytes, request: bytes = b"") -> None:
        if self._waiting:
            self._queue.append((raw, request))
        elif request:
            self._ask(raw, request)
        else:
            self._owner.send_frames(raw)

    def _stop_reading(self) -> None:
        """Forward everything from here on as it comes."""
        splitter, self._from_agent = self._from_agent, None
        assert splitter is not None
        rest = b"".join(item.raw for item in self._message) + bytes(splitter.buffer)
        self._pass(rest)

    def _ask(self, raw: bytes, request: bytes) -> None:
        self._end_answer()
        self._waiting = self._relay.next_exchange_id()
        self._raw = raw
        self._compactor.add_json(Kind.OPEN, self._waiting, self._payload)
        self._compactor.add(Kind.REQUEST_BODY, self._waiting, request)
        self._compactor.add(Kind.REQUEST_END, self._waiting)
        self._compactor.wait(self._waiting, self._on_request_verdict, self._relay.settings.deadline_s)

    def _on_request_verdict(self, verdict: Verdict | None, body: bytes) -> None:
        exchange, self._waiting = self._waiting, 0
        if not exchange:
            return
        self.session = verdict["session"] if verdict else ""
        raw, self._raw = self._raw, b""
        if verdict is None:
            self._compactor.add_json(Kind.ABORTED, exchange, {"by": "gateway", "reason": "It is not waited for."})
            self._send(raw, "late" if self._compactor.is_running else "unavailable", None)
        elif verdict["action"] == "replace" and body:
            self._send(encode_text(body), "compacted", verdict)
            self._hold(exchange)
        else:
            self._send(raw, "none", verdict)
            self._hold(exchange)
        while self._queue and not self._waiting:
            self._pass(*self._queue.popleft())

    def _send(self, raw: bytes, rewrite: Rewrite, verdict: Verdict | None) -> None:
        self.rewrite = rewrite
        self._relay.note_rewrite(self, verdict)
        self._owner.send_frames(raw, {"session": self.session, "rewrite": rewrite})

    # From the upstream

    def begin(self, data: bytes) -> None:
        """Read bytes that came with the head of the answer, and were given to the agent with it."""
        for _ in self._from_upstream.feed(data):
            pass

    def _hold(self, exchange: int) -> None:
        self._open = exchange
        self._held, self._held_size = [], 0
        self._compactor.add_json(Kind.ANSWER, exchange, _STREAM)
        longest_s = self._relay.settings.deadline_s
        self._compactor.wait(exchange, self._on_answer_verdict, STREAM_S, longest_s=longest_s)

    def feed_upstream(self, data: bytes) -> None:
        """Read bytes of the upstream."""
        try:
            for frame in self._from_upstream.feed(data):
                self._read_answer(frame)
        except FrameTooLarge:
            self._from_upstream = FrameSplitter(max_bytes=1 << 62)
        if self._held is None:
            self._owner.give_frames(data)
            return
        self._held.append(data)
        self._held_size += len(data)
        if self._held_size > MAX_HELD_BYTES:
            self.release()

    def _read_answer(self, frame: WebsocketFrame) -> None:
        if frame.kind > BINARY or not self._open:
            return
        if frame.kind != CONTINUATION:
            self._answer = []
        self._answer.append(frame.payload)
        if frame.first & FIN:
            # A line break is white space in JSON, but the end of a line in a stream of events.
            message = b"".join(self._answer).replace(b"\r", b" ").replace(b"\n", b" ")
            self._compactor.add(Kind.ANSWER_BODY, self._open, b"data: " + message + b"\n\n")

    def _on_answer_verdict(self, verdict: Verdict | None, body: bytes) -> None:
        if self._held is None:
            return
        if verdict is None or verdict["action"] != "replace" or not body:
            self.release()
            return
        # What is left of a frame that has begun goes on after the events that the agent does not get.
        self._held, self._held_size = [bytes(self._from_upstream.buffer)], 0
        retry_of, exchange = self._open, self._relay.next_exchange_id()
        self._send(encode_text(body), "recovered", verdict)
        self._compactor.add_json(Kind.ABORTED, retry_of, {"by": "gateway", "reason": "It is sent again."})
        retry: dict[str, Any] = {**self._payload, "retry_of": retry_of}
        self._compactor.add_json(Kind.OPEN, exchange, retry)
        self._compactor.add(Kind.REQUEST_END, exchange)
        held = self._held
        self._hold(exchange)
        self._held = held

    def release(self) -> None:
        """Give what is held to the agent."""
        held, self._held = self._held, None
        if self._open:
            self._compactor.forget(self._open)
        if held and (data := b"".join(held)):
            self._owner.give_frames(data)

    def _end_answer(self) -> None:
        if self._open:
            self.release()
            self._compactor.add(Kind.ANSWER_END, self._open)
            self._open = 0
