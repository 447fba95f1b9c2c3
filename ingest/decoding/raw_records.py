"""Decoded events before redaction.

Their texts may contain secrets. Only `ingest.decoding.door` reads them, and makes the records of
`ingest.decoding.records` from them. Parsers cannot import those, which `make lint` checks.
"""

from __future__ import annotations

from typing import Any

import msgspec


class RawSpan(msgspec.Struct, gc=False):
    """A span, or the part of it that one event contains, as received."""

    trace_id: str
    span_id: str
    parent_id: str | None
    kind: str
    name: str  # may be empty
    status: str
    started_us: int | None
    ended_us: int | None
    data: dict[str, Any]
    payload: Any
    encoded_data: bytes
    encoded_payload: bytes | None
    session_id: str | None  # only if the event itself names a session
    has_derived_id: bool = False  # `span_id` is a hash of the content


class RawTrace(msgspec.Struct, gc=False):
    """The part of a trace that one event contains, as received."""

    trace_id: str
    name: str
    group_id: str | None
    session_id: str | None
    started_us: int | None
    ended_us: int | None
    metadata: dict[str, Any]
    encoded_metadata: bytes


Raw = RawSpan | RawTrace


class Rejection(msgspec.Struct):
    """The reason why one event of a body was not stored."""

    index: int
    path: str
    message: str


class Parsed(msgspec.Struct):
    """Events of a body and those that were rejected.

    `indexes` has the position in the body of each event, or -1 for a trace that OTLP spans imply.
    """

    events: list[Raw] = []
    indexes: list[int] = []
    rejections: list[Rejection] = []

    def add(self, index: int, event: Raw) -> None:
        self.events.append(event)
        self.indexes.append(index)
