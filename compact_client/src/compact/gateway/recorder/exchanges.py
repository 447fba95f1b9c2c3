"""Put exchanges together from frames: the head, the body of the request and the answer, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from typing import Protocol as TypingProtocol

from compact.delivery import fast_json
from compact.gateway.frames import Frame, Kind, Open
from compact.gateway.recorder.content_coding import BodyDecoder, BodyTooLarge, UnreadableBody
from compact.gateway.recorder.event_stream import EventStream
from compact.gateway.recorder.protocols import PROTOCOLS, Answer, Protocol, RequestBody
from compact.gateway.recorder.websocket import WebsocketReader

_SWITCHING, _OK = 101, 200
_LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done", "error"})
_HEAD_BYTES = 200
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_HELD_BYTES = 96 * 1024 * 1024
"""The bytes of all requests that wait for their answers. Above it, the largest one is dropped."""


class Watch(TypingProtocol):
    """Reads an answer while it arrives."""

    def __call__(self, value: Mapping[str, Any], /, *, is_document: bool) -> None:
        """Read an event or a document."""


@dataclass(slots=True)
class Exchange:
    """One request with its answer."""

    id: str
    head: Open
    headers: Mapping[str, str]
    protocol: Protocol
    started_at: float
    ended_at: float = 0.0
    body: bytearray = field(default_factory=bytearray)
    input: RequestBody | None = None
    """The body, once it is parsed."""
    answer: Answer = field(default_factory=Answer)
    status: int = 0
    is_aborted: bool = False
    is_begun: bool = False
    problem: str = ""
    """The reason why it cannot be recorded."""
    watch: Watch | None = None
    """Called with each event of the answer, or with the whole answer if it is one document."""


def is_named(exchange: Exchange) -> bool:
    """Return True once an answer has an id and, in the Responses API, its first item, by which a log may call it."""
    answer = exchange.answer
    return bool(answer.id) and (exchange.protocol.name != "responses" or bool(answer.items))


class Socket:
    """A websocket of the Responses API. Each `response.create` is an exchange, one after the other."""

    def __init__(self, handshake: Exchange, extensions: str) -> None:
        self.current = handshake
        self.is_unreadable = False
        self._handshake = handshake
        self._client = WebsocketReader(extensions, is_client=True, max_bytes=MAX_BODY_BYTES)
        self._server = WebsocketReader(extensions, is_client=False, max_bytes=MAX_BODY_BYTES)
        self._reader = handshake.protocol.reader()
        self._is_open = False
        self._number = 0
        self._note: dict[str, str] = {}
        """The fields that only the next request has."""

    def feed(self, frame: Frame) -> Iterator[Exchange]:
        """Yield an exchange when its answer has a name, and when it is over."""
        try:
            if frame.kind is Kind.NOTE:
                self._note = frame.json()
            elif frame.kind is Kind.CLIENT_FRAME:
                for message in self._client.feed(frame.payload):
                    yield from self._read_request(message, frame.time)
            elif frame.kind is Kind.SERVER_FRAME:
                for message in self._server.feed(frame.payload):
                    yield from self._read_answer(message, frame.time)
            elif frame.kind is Kind.ABORTED:
                yield from self._close(frame.time)
        except UnreadableBody:
            self.is_unreadable = True
            self.current.problem = "unreadable"
            yield from self._close(frame.time)

    def _read_request(self, message: bytes, at: float) -> Iterator[Exchange]:
        if b"response.create" not in message[:_HEAD_BYTES] and b"response.create" not in message[-_HEAD_BYTES:]:
            return
        yield from self._close(at)
        self._number += 1
        head = self._handshake
        fields: Open = {**head.head, **self._note}  # type: ignore[typeddict-item]
        self._note = {}
        self.current = Exchange(f"{head.id}.{self._number}", fields, head.headers, head.protocol, at)
        self.current.body, self.current.status = bytearray(message), _OK
        self._reader = head.protocol.reader()
        self.current.answer = self._reader.answer
        self._is_open = True

    def _read_answer(self, message: bytes, at: float) -> Iterator[Exchange]:
        exchange = self.current
        if not self._is_open:
            return
        try:
            event = fast_json.parse(message)
        except (ValueError, RecursionError):
            return
        self._reader.feed(event)
        if event.get("type") in _LAST_EVENTS:
            self._is_open = False
            exchange.ended_at = at
            yield exchange
        elif is_named(exchange) and not exchange.is_begun:
            yield exchange

    def _close(self, at: float) -> Iterator[Exchange]:
        """Yield an exchange whose answer will not be complete."""
        if self._is_open:
            self._is_open = False
            self.current.is_aborted, self.current.ended_at = True, at
            yield self.current


class Exchanges:
    """Reads frames and yields exchanges: once when the answer has an id, and once when they are over."""

    def __init__(self) -> None:
        self._open: dict[int, _Reading] = {}
        self._sockets: dict[int, Socket] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._open)

    def feed(self, frame: Frame) -> Iterator[Exchange]:
        """Yield the exchange of a frame if it is news: its answer has begun, or it has ended."""
        if frame.kind is Kind.OPEN:
            self._start(frame)
            return
        reading = self._open.get(frame.exchange)
        if reading is None:
            yield from self._feed_socket(frame)
            return
        held = len(reading.exchange.body)
        reading.feed(frame)
        self._held += len(reading.exchange.body) - held
        self._bound()
        exchange = reading.exchange
        if exchange.status == _SWITCHING:
            self.forget(frame.exchange)
            self._sockets[frame.exchange] = Socket(exchange, reading.extensions)
            return
        if reading.is_over:
            exchange.ended_at = frame.time
            self.forget(frame.exchange)
            yield exchange
        elif reading.has_begun and not exchange.is_begun:
            yield exchange

    def _feed_socket(self, frame: Frame) -> Iterator[Exchange]:
        socket = self._sockets.get(frame.exchange)
        if socket is None:
            return
        yield from socket.feed(frame)
        if frame.kind is Kind.ABORTED or socket.is_unreadable:
            del self._sockets[frame.exchange]

    def get(self, number: int) -> Exchange | None:
        """Return an exchange that is not over."""
        reading = self._open.get(number)
        return reading.exchange if reading else None

    def forget(self, number: int) -> Exchange | None:
        """Drop an exchange, such as one that a gap names, and return what is known about it."""
        socket = self._sockets.pop(number, None)
        if socket is not None:
            return socket.current
        reading = self._open.pop(number, None)
        if reading is None:
            return None
        self._held -= len(reading.exchange.body)
        return reading.exchange

    def _start(self, frame: Frame) -> None:
        head: Open = frame.json()
        protocol = PROTOCOLS.get(head["protocol"])
        if protocol is None:
            return  # Forwarded as it is, and not a prompt.
        headers = dict(head["headers"])
        self._open[frame.exchange] = _Reading(Exchange(str(frame.exchange), head, headers, protocol, frame.time))

    def _bound(self) -> None:
        while self._held > MAX_HELD_BYTES:
            largest = max(self._open.values(), key=lambda reading: len(reading.exchange.body))
            self._held -= len(largest.exchange.body)
            largest.give_up("body_too_large")


class _Reading:
    """One exchange while its frames arrive."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._request: BodyDecoder | None = None
        self._response: BodyDecoder | None = None
        self._events: EventStream | None = None
        self._document = bytearray()
        self._reader = exchange.protocol.reader()
        exchange.answer = self._reader.answer
        self._has_request = self._has_answer = False
        self.extensions = ""
        """The extensions of a websocket."""

    @property
    def is_over(self) -> bool:
        return self.exchange.is_aborted or (self._has_request and self._has_answer)

    @property
    def has_begun(self) -> bool:
        """True once the request is complete and the answer has a name."""
        return self._has_request and is_named(self.exchange) and not self.exchange.problem

    def feed(self, frame: Frame) -> None:
        exchange = self.exchange
        match frame.kind:
            case Kind.REQUEST_BODY:
                self._add_request(frame.payload)
            case Kind.REQUEST_END:
                self._has_request = True
            case Kind.ANSWER:
                self._start_answer(frame.json())
            case Kind.ANSWER_BODY:
                self._add_answer(frame.payload)
            case Kind.ANSWER_END:
                self._finish_answer()
                self._has_answer = True
            case Kind.ABORTED:
                self._finish_answer()
                exchange.is_aborted = True

    def give_up(self, problem: str) -> None:
        """Keep only the head of the exchange."""
        self.exchange.problem = self.exchange.problem or problem
        self.exchange.body = bytearray()

    def _add_request(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange.problem:
            return
        try:
            if self._request is None:
                encoding = exchange.headers.get("content-encoding", "")
                self._request = BodyDecoder(encoding, max_bytes=MAX_BODY_BYTES)
            exchange.body += self._request.feed(data)
        except BodyTooLarge:
            self.give_up("body_too_large")
        except UnreadableBody:
            self.give_up("unreadable")

    def _start_answer(self, head: Mapping[str, Any]) -> None:
        headers = dict(head["headers"])
        self.exchange.status = head["status"]
        self.extensions = headers.get("sec-websocket-extensions", "")
        self._events = EventStream() if "event-stream" in headers.get("content-type", "") else None
        try:
            self._response = BodyDecoder(headers.get("content-encoding", ""), max_bytes=MAX_BODY_BYTES)
        except UnreadableBody:
            self._response = None

    def _add_answer(self, data: bytes) -> None:
        if self._response is None:
            return
        try:
            data = self._response.feed(data)
        except UnreadableBody:
            self._response = None
            return
        if self._events is None:
            self._document += data
            return
        for event in self._events.feed(data):
            self._read(event)

    def _finish_answer(self) -> None:
        if self._events is not None:
            for event in self._events.finish():
                self._read(event)
            self._events = None
        elif self._document:
            self._read(bytes(self._document), is_document=True)
            self._document = bytearray()

    def _read(self, raw: bytes, *, is_document: bool = False) -> None:
        if raw == b"[DONE]":
            return
        try:
            value = fast_json.parse(raw)
        except (ValueError, RecursionError):
            return
        for item in value if isinstance(value, list) else [value]:  # Gemini streams a list without `alt=sse`.
            if isinstance(item, Mapping):
                (self._reader.document if is_document else self._reader.feed)(item)
                if self.exchange.watch is not None:
                    self.exchange.watch(item, is_document=is_document)
