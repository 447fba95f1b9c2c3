"""Decoded spans and traces without secrets, ready to be written.

Data only. Their texts are of a type that only `ingest.decoding.door` creates. JSON is encoded once, when an event is
decoded, and times are microseconds since 2000 as in Postgres. Records cross process boundaries as arrays, because field
names would be a third of their size.
"""

from __future__ import annotations

import msgspec

from ingest.decoding.clean import CleanText
from ingest.decoding.raw_records import Rejection
from ingest.decoding.span_stats import Stats


class Span(msgspec.Struct, gc=False, array_like=True, tag="span"):
    """A span, or the part of it that one event contains."""

    trace_id: CleanText
    span_id: CleanText
    parent_id: CleanText | None
    kind: CleanText
    name: CleanText
    status: str
    started_us: int | None
    ended_us: int | None
    data: bytes  # JSON while a body is decoded, then as stored. See `ingest.storage.payloads`
    payload: bytes | None  # likewise
    session_id: CleanText | None  # only if the event itself names a session
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

    trace_id: CleanText
    name: CleanText
    group_id: CleanText | None
    session_id: CleanText | None
    started_us: int | None
    ended_us: int | None
    metadata: bytes


Record = Span | Trace


class Decoded(msgspec.Struct):
    """Records of a body and the events that were rejected.

    `indexes` has the position in the body of each record's event, or -1 for a trace that OTLP spans imply.
    `redacted_count` is the number of records in which a secret was redacted, `replaced_ids` the number of different ids
    that had one. `cpu_s` is the CPU time of decoding in a worker process.
    """

    records: list[Record] = []
    indexes: list[int] = []
    rejections: list[Rejection] = []
    redacted_count: int = 0
    replaced_ids: int = 0
    cpu_s: float = 0.0

    @property
    def count(self) -> int:
        """Number of accepted events. One OTLP span can become several records."""
        return len(set(self.indexes) - {-1})
