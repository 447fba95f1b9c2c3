"""The frames that wait for the recorder, bounded in bytes.

Adding a frame never blocks and never fails. If there is no room, the rest of its exchange is dropped, and a GAP frame
says so as soon as there is room again.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any

from compact.gateway.frames import MAX_PAYLOAD_BYTES, Kind, encode_header, encode_json

_BUFFER_COST = 56
"""The memory of a buffer beside its bytes: its object and its place in the queue."""
_GAP_IDS = 1_000
_GAP_ROOM = 32_768
"""The room for a GAP frame with that many ids."""
_BODY_SHARE = 7 / 8
"""The part of the queue that bodies may fill. The rest is for heads, which say in which session a gap is."""
_END_KINDS = {Kind.REQUEST_END, Kind.ANSWER_END}


class FrameQueue:
    """A first-in, first-out queue of buffers, and the exchanges whose copy is incomplete."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._buffers: deque[bytes] = deque()
        self._written = 0
        """The bytes of the first buffer that were written."""
        self._open: dict[int, int] = {}
        """The exchanges that have not ended, with the number of their sides that have."""
        self._ended: deque[tuple[int, int]] = deque()
        """The exchanges whose last frame waits, with the number of buffers that were added up to it."""
        self._added = self._removed = 0
        self._dropped: set[int] = set()
        self._gap_ids: list[int] = []
        self._gap_bytes = 0
        self.size = 0
        self.frames_total = 0
        self.gaps_total = 0
        self.dropped_bytes_total = 0

    def __bool__(self) -> bool:
        return bool(self._buffers)

    def add(self, kind: Kind, exchange: int, time: float, payload: bytes = b"") -> None:
        """Add a frame, or drop it and the rest of its exchange."""
        if kind is Kind.OPEN:
            self._open[exchange] = 0
        limit = self._limit if kind is Kind.OPEN else self._limit * _BODY_SHARE
        if exchange in self._dropped or self.size + len(payload) + 2 * _BUFFER_COST > limit:
            self._drop(exchange, len(payload))
        else:
            self.add_gaps(time)
            self._append(kind, exchange, time, payload)
        if kind in _END_KINDS:
            self._open[exchange] = self._open.get(exchange, 0) + 1
        if kind is Kind.ABORTED or self._open.get(exchange) == len(_END_KINDS):
            self._end(exchange)

    def add_json(self, kind: Kind, exchange: int, time: float, payload: Mapping[str, Any]) -> None:
        """Add a frame with a JSON payload."""
        self.add(kind, exchange, time, json.dumps(payload, separators=(",", ":")).encode())

    def add_gaps(self, time: float) -> None:
        """Add the GAP frames that are due, if there is room."""
        while self._gap_ids and self.size + _GAP_ROOM < self._limit:
            ids, self._gap_ids = self._gap_ids[:_GAP_IDS], self._gap_ids[_GAP_IDS:]
            self._push(encode_json(Kind.GAP, 0, time, {"exchanges": ids, "bytes_dropped": self._gap_bytes}))
            self._gap_bytes = 0
            self.frames_total += 1

    def has_dropped(self, exchange: int) -> bool:
        """Return True if the copy of an exchange is incomplete."""
        return exchange in self._dropped

    def drop_all(self) -> None:
        """Drop everything that waits, and the rest of every exchange. The recorder has died."""
        ended = [exchange for exchange, _ in self._ended]
        for exchange in [*ended, *(self._open.keys() - self._dropped)]:
            self._drop(exchange, 0)
        self._dropped.difference_update(ended)
        self._count_dropped_bytes(sum(len(buffer) for buffer in self._buffers) - self._written)
        self._buffers.clear()
        self._ended.clear()
        self._removed = self._added
        self._written = self.size = 0

    def first(self, count: int) -> list[bytes | memoryview]:
        """Return the first buffers, to be written with one system call."""
        buffers: list[bytes | memoryview] = list(islice(self._buffers, count))
        if self._written:
            buffers[0] = memoryview(buffers[0])[self._written :]
        return buffers

    def consume(self, written: int) -> None:
        """Remove bytes that were written. A buffer counts until all of it is written."""
        written += self._written
        while self._buffers and len(self._buffers[0]) <= written:
            size = len(self._buffers.popleft())
            written -= size
            self.size -= size + _BUFFER_COST
            self._removed += 1
        self._written = written
        while self._ended and self._ended[0][1] <= self._removed:
            self._ended.popleft()

    def _append(self, kind: Kind, exchange: int, time: float, payload: bytes) -> None:
        for start in range(0, len(payload) or 1, MAX_PAYLOAD_BYTES):
            part = payload if len(payload) <= MAX_PAYLOAD_BYTES else payload[start : start + MAX_PAYLOAD_BYTES]
            self._push(encode_header(kind, exchange, time, len(part)))
            if part:
                self._push(part)
            self.frames_total += 1

    def _end(self, exchange: int) -> None:
        self._open.pop(exchange, None)
        if exchange in self._dropped:
            self._dropped.discard(exchange)
        else:
            self._ended.append((exchange, self._added))

    def _push(self, buffer: bytes) -> None:
        self._buffers.append(buffer)
        self._added += 1
        self.size += len(buffer) + _BUFFER_COST

    def _drop(self, exchange: int, payload_bytes: int) -> None:
        self._count_dropped_bytes(payload_bytes)
        if exchange not in self._dropped:
            self._dropped.add(exchange)
            self._gap_ids.append(exchange)
            self.gaps_total += 1

    def _count_dropped_bytes(self, size: int) -> None:
        self._gap_bytes += size
        self.dropped_bytes_total += size
