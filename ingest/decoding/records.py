"""Decoded spans and traces, ready to be written.

Data only. JSON is encoded once, when an event is decoded, and times are microseconds since 2000 as in Postgres. Records
cross process boundaries as arrays, because field names would be a third of their size.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ingest.decoding.span_stats import Stats


class Span(msgspec.Struct, gc=False, array_like=True, tag="span"):
    """A span, or the part of it that one event contains."""

    trace_id: str
    span_id: str
    parent_id: str | None
    kind: str
    name: str
    status: str
    started_us: int | None
    ended_us: int | None
    data: bytes  # JSON while a body is decoded, then as stored. See `ingest.storage.payloads`
    payload: bytes | None  # likewise
    session_id: str | None  # only if the event itself names a session
    stats: Stats
    messages: dict[bytes, bytes] | None = None  # texts of messages in `payload` by hash, stored separately
    arguments_hash: int | None = None  # of a tool call. See `ingest.decoding.tool_arguments`

    @property
    def is_running(self) -> bool:
        """True if the span has started and not ended."""
        return self.ended_us is None and self.started_us is not None

    @property
    def at_us(self) -> int | None:
        """The latest known time of the span, by the agent's clock."""
        return self.started_us if self.ended_us is None else self.ended_us


class Trace(msgspec.Struct, gc=False, array_like=True, tag="trace"):
    """The part of a trace that one event contains."""

    trace_id: str
    name: str
    group_id: str | None
    session_id: str | None
    started_us: int | None
    ended_us: int | None
    metadata: bytes


Record = Span | Trace
Converted = tuple[Record, dict[str, Any], Any]
"""A record with its data (of a span) or metadata (of a trace), and its payload, before encoding."""


class Rejection(msgspec.Struct):
    """The reason why one event of a body was not stored."""

    index: int
    path: str
    message: str


class Decoded(msgspec.Struct):
    """Records of a body and the events that were rejected.

    `indexes` has the position in the body of each record's event, or -1 for a trace that OTLP spans imply. `converted`
    has the content of the records for redaction and is emptied afterwards. `redacted_count` is the number of records
    in which a secret was redacted. `cpu_s` is the CPU time of decoding in a worker process.
    """

    records: list[Record] = []
    indexes: list[int] = []
    converted: list[Converted] = []
    rejections: list[Rejection] = []
    redacted_count: int = 0
    cpu_s: float = 0.0

    @property
    def count(self) -> int:
        """Number of accepted events. One OTLP span can become several records."""
        return len(set(self.indexes) - {-1})

    def add(self, index: int, converted: Converted) -> None:
        self.records.append(converted[0])
        self.indexes.append(index)
        self.converted.append(converted)
