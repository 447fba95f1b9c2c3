"""The answers of one connection to an upstream: find where each ends, and copy them.

The bytes are forwarded before they are read here, so an answer that cannot be read is forwarded like any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from compact.gateway.frames import Kind
from compact.gateway.http1.bodies import Body, CloseBody, answer_body
from compact.gateway.http1.heads import MAX_HEAD_BYTES, AnswerHead, HeadError, parse_answer_head
from compact.gateway.relay.compactor_process import CompactorProcess
from compact.gateway.relay.credentials import copied_answer_headers
from compact.gateway.relay.frame_process import FrameProcess
from compact.gateway.relay.metrics import Metrics
from compact.gateway.relay.recorder_process import RecorderProcess

_TYPE = "content-type"
Side = Literal["client", "upstream", "gateway"]


@dataclass(slots=True)
class Exchange:
    """A request that was forwarded, until its answer has ended."""

    id: int
    method: str
    upstream: str
    is_copied: bool
    has_copied_bodies: bool
    wants_upgrade: bool
    compactor: CompactorProcess | None = None
    """Gets a copy of the answer, if the request was given to it."""
    status: int = 0
    """The status of the final answer, once its head has arrived."""
    is_event_stream: bool = False


class AnswerStream:
    """Reads answers in the order of their requests."""

    def __init__(self, recorder: RecorderProcess, metrics: Metrics) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._head = b""
        self._body: Body | None = None
        self._is_unreadable = False
        self.exchanges: deque[Exchange] = deque()
        self.is_tunnel = False
        """True after an answer 101. The bytes of both directions belong to another protocol."""
        self.tunnel_start = b""
        """The bytes of that protocol which came with the head."""

    @property
    def is_idle(self) -> bool:
        """Return True if no answer is expected."""
        return not self.exchanges

    def feed(self, data: bytes) -> None:
        """Read bytes that the upstream sent."""
        if self.is_tunnel:
            self.copy_tunnel(Kind.SERVER_FRAME, data)
            return
        start = 0
        try:
            while start < len(data) and not self._is_unreadable:
                if self.is_tunnel:
                    self.tunnel_start = data[start:]
                    self.copy_tunnel(Kind.SERVER_FRAME, self.tunnel_start)
                    return
                start = self._read_head(data, start) if self._body is None else self._read_body(self._body, data, start)
        except HeadError as error:
            self._is_unreadable = True
            self.abort("gateway", f"The answer is unreadable. {error}")

    def end(self) -> None:
        """Note the end of the connection, which is the end of an answer without a length."""
        if isinstance(self._body, CloseBody) and not self.is_tunnel:
            self._end_answer()

    def abort(self, by: Side, reason: str) -> None:
        """Note that the pending answers will not come, or not whole."""
        while self.exchanges:
            exchange = self.exchanges.popleft()
            for copy in self._copies(exchange):
                copy.add_json(Kind.ABORTED, exchange.id, {"by": by, "reason": reason})
            self._metrics.count_aborted(exchange.upstream, by)

    def copy_tunnel(self, kind: Kind, data: bytes, note: Mapping[str, str] | None = None) -> None:
        """Copy bytes of a websocket, and before them a note about the request in them."""
        if self.exchanges and self.exchanges[0].has_copied_bodies:
            if note is not None:
                self._recorder.add_json(Kind.NOTE, self.exchanges[0].id, note)
            self._recorder.add(kind, self.exchanges[0].id, data)

    def _read_head(self, data: bytes, start: int) -> int:
        if not self.exchanges:
            raise HeadError("It has no request.")
        rest = data[start:] if start else data
        buffer = self._head + rest if self._head else rest
        end = buffer.find(b"\r\n\r\n") + 4
        if end < 4:
            if len(buffer) > MAX_HEAD_BYTES:
                raise HeadError("Its head is too long.")
            self._head = buffer
            return len(data)
        start += end - len(self._head)
        self._head = b""
        head = parse_answer_head(buffer[:end])
        if not head.is_interim:
            self._start_answer(head)
        return start

    def _start_answer(self, head: AnswerHead) -> None:
        exchange = self.exchanges[0]
        exchange.status = head.status
        exchange.is_event_stream = any("event-stream" in value for name, value in head.headers if name == _TYPE)
        for copy in self._copies(exchange):
            answer = {"status": head.status, "headers": copied_answer_headers(head.headers)}
            copy.add_json(Kind.ANSWER, exchange.id, answer)
        self._metrics.count_answer(exchange.upstream, head.status)
        if head.status == 101 and exchange.wants_upgrade:
            self.is_tunnel = True
            return
        self._body = answer_body(head, exchange.method)
        if self._body.is_done:
            self._end_answer()

    def _read_body(self, body: Body, data: bytes, start: int) -> int:
        content: list[bytes] = []
        start = body.feed(data, start, content)
        exchange = self.exchanges[0]
        if exchange.has_copied_bodies:
            for piece in content:
                self._recorder.add(Kind.ANSWER_BODY, exchange.id, piece)
        if exchange.compactor is not None:
            for piece in content:
                exchange.compactor.add(Kind.ANSWER_BODY, exchange.id, piece)
        if body.is_done:
            self._end_answer()
        return start

    def _end_answer(self) -> None:
        self._body = None
        exchange = self.exchanges.popleft()
        for copy in self._copies(exchange):
            copy.add(Kind.ANSWER_END, exchange.id)

    def _copies(self, exchange: Exchange) -> list[FrameProcess]:
        """Return the processes that get a copy of the head and the end of an answer."""
        copies: list[FrameProcess] = [self._recorder] if exchange.is_copied else []
        return [*copies, exchange.compactor] if exchange.compactor is not None else copies
