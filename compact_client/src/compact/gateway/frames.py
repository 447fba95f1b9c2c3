"""Frames between the relay and the recorder: their kinds, their contents, an encoder and an incremental decoder.

A frame is a header of 21 bytes in network order and a payload: payload length (u32), kind (u8), exchange id (u64),
time in Unix seconds (f64). An exchange is one request with its answer. The frames of an exchange arrive in order, and
those of different exchanges interleave. The answer can start, and end, before the request has ended.

    OPEN, REQUEST_BODY*, REQUEST_END, ANSWER+, ANSWER_BODY*, ANSWER_END       an ordinary exchange
    OPEN, REQUEST_END, ANSWER (101), (CLIENT_FRAME | SERVER_FRAME)*, ABORTED  a websocket
    …, ABORTED                                                                at any point after OPEN
    …, GAP                                                                    at any point: no more of these exchanges

An exchange is over after ANSWER_END and REQUEST_END, after ABORTED, or when a GAP names it. Nothing about it follows.

The bytes of a body are its content without the framing of a chunked transfer, cut where they happened to arrive. Its
content coding, such as gzip, is still applied (`content-encoding` in the headers). Interim answers such as 103 are
not copied. The bytes of a websocket are raw and can be cut inside a websocket frame. Of an exchange whose protocol is
`unknown`, only the heads and ends are copied.

The recorder gets its end of a socket pair as stdin and writes frames of the kinds SESSION and FIGURES back to it.

In compact mode, a compactor process gets the same frames of the requests that may be compacted, with the body as the
agent sent it. It answers each REQUEST_END with a VERDICT, and a second time for an answer that may report an overflow.
What the recorder gets is what was sent to the provider.

This module imports only the standard library.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, NotRequired, TypedDict

MAX_PAYLOAD_BYTES = 1 << 24
"""Larger payloads are cut by the relay. A decoder that reads a larger length is out of step."""
_HEADER = struct.Struct("!IBQd")


class Kind(IntEnum):
    """The kinds of frames."""

    OPEN = 1
    REQUEST_BODY = 2
    REQUEST_END = 3
    ANSWER = 4
    ANSWER_BODY = 5
    ANSWER_END = 6
    ABORTED = 7
    CLIENT_FRAME = 8
    SERVER_FRAME = 9
    GAP = 10
    NOTE = 11
    """To the recorder, before a message of a websocket in compact mode. The fields `session` and `rewrite` of OPEN."""
    SESSION = 32
    """From the recorder: the session that a client works in. See `Session`."""
    FIGURES = 33
    """From the recorder: counters for `/metrics`. A JSON object of names and numbers that only grow."""
    BODY = 48
    """From the compactor: a part of the body to send instead of the agent's."""
    VERDICT = 49
    """From the compactor: the decision about a request, or about an answer that is held. See `Verdict`."""
    PING = 50
    """To the compactor, and back: a sign of life."""


Rewrite = Literal["none", "compacted", "recovered", "late", "unavailable", "too_large"]
"""The fate of the body of a request in compact mode. The last three were sent as they came: the compactor needed too
long, did not run, or the body was too large for it."""


class Open(TypedDict):
    """The payload of OPEN: the head of a request."""

    method: str
    path: str
    """Path and query as the upstream gets them. The value of a query parameter that can be a key is `redacted`."""
    upstream: str
    """The name of the upstream: `anthropic`, `openai`, `gemini`, or the NAME of a custom one."""
    url: str
    """The address of the upstream, without credentials."""
    protocol: Literal["anthropic", "responses", "chat", "gemini", "unknown"]
    """A guess from the path."""
    headers: list[tuple[str, str]]
    """Names in lower case, in order. The values of headers that are not known to be harmless are `redacted`."""
    credential: str
    """A hash of all credentials of the request, with a random key of this gateway process. Empty without any."""
    client: str
    """The label that `compactctl run` gave to its agent, or the empty string."""
    session: NotRequired[str]
    """To the recorder: the id of the session, as the compactor has found it."""
    rewrite: NotRequired[Rewrite]
    """To the recorder, in compact mode only."""
    retry_of: NotRequired[int]
    """To the compactor: the exchange whose request was too long for its provider. No body follows."""
    is_compacted: NotRequired[bool]
    """To the compactor: True if every agent is compacted, and not only those of its settings."""


class Answer(TypedDict):
    """The payload of ANSWER: the head of a final answer."""

    status: int
    headers: list[tuple[str, str]]
    """Names in lower case, without cookies."""


class Aborted(TypedDict):
    """The payload of ABORTED."""

    by: Literal["client", "upstream", "gateway"]
    reason: str


class Gap(TypedDict):
    """The payload of GAP: exchanges whose copy is incomplete, because the recorder was slow, stopped or dead."""

    exchanges: list[int]
    """At most 1,000 ids, whose later frames are dropped too."""
    bytes_dropped: int


class Session(TypedDict):
    """The payload of SESSION. The last one of a client is what `compactctl run` shows when its agent ends."""

    client: str
    session_id: str
    url: NotRequired[str]
    """The page of the session, if a server is configured."""


class Verdict(TypedDict):
    """The payload of VERDICT."""

    action: Literal["original", "replace", "release", "wait"]
    """`original`: send the body of the agent. `replace`: send the BODY before this frame, for a request that waits, or
    again after an answer that is held. `release`: give the answer to the agent. `wait`: the answer is an overflow, and
    another verdict follows."""
    session: str
    """The id of the session."""
    compactions: int
    """The number of compactions that this request caused."""
    saved_tokens: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame."""

    kind: Kind
    exchange: int
    time: float
    payload: bytes = b""

    def json(self) -> Any:
        """Return the payload of a kind that has a JSON payload."""
        return json.loads(self.payload)


class FrameError(ValueError):
    """The bytes are not frames."""


def encode_header(kind: Kind, exchange: int, time: float, payload_bytes: int) -> bytes:
    """Return the header of a frame. The relay sends header and payload without joining them."""
    return _HEADER.pack(payload_bytes, kind, exchange, time)


def encode(kind: Kind, exchange: int, time: float, payload: bytes = b"") -> bytes:
    """Return a frame."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise FrameError(f"A payload of {len(payload):,} bytes exceeds the limit of {MAX_PAYLOAD_BYTES:,}.")
    return encode_header(kind, exchange, time, len(payload)) + payload


def encode_json(kind: Kind, exchange: int, time: float, payload: Mapping[str, Any]) -> bytes:
    """Return a frame with a JSON payload."""
    return encode(kind, exchange, time, json.dumps(payload, separators=(",", ":")).encode())


class FrameDecoder:
    """Turns bytes, cut anywhere, into frames. It holds at most one incomplete frame."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete. Consume the iterator before the next call."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= _HEADER.size:
                length, kind, exchange, time = _HEADER.unpack_from(buffer, start)
                if length > MAX_PAYLOAD_BYTES:
                    raise FrameError(f"A frame of {length:,} bytes exceeds the limit of {MAX_PAYLOAD_BYTES:,}.")
                end = start + _HEADER.size + length
                if len(buffer) < end:
                    return
                payload = bytes(memoryview(buffer)[start + _HEADER.size : end])
                start = end
                yield Frame(_kind(kind), exchange, time, payload)
        finally:
            del buffer[:start]

    @property
    def is_complete(self) -> bool:
        """Return True if no frame is incomplete. At the end of a stream, False means that the writer died."""
        return not self._buffer


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise FrameError(f"There is no kind of frame with the number {number}.") from None
