"""What was received, once it is known to be sound: spans and traces, ready to be written.

Data only. JSON stays the bytes it came as wherever nobody had to change it, and times are microseconds since 2000,
which is how Postgres keeps them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from ingest.decoding.span_facts import Facts

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else EPOCH + timedelta(microseconds=microseconds)


class Span(msgspec.Struct, gc=False):
    """One span, or the part of it that one event told."""

    trace_id: str
    span_id: str
    parent_id: str | None
    kind: str
    name: str
    status: str
    started_us: int | None
    ended_us: int | None
    data: bytes
    payload: bytes | None
    session_id: str | None  # the session that the event itself names
    facts: Facts
    fields: dict[str, Any] | None = None  # `data` and `payload` as objects, until they have been looked through
    said: Any = None
    texts: dict[bytes, bytes] | None = None  # messages of `payload` by hash, stored beside it

    @property
    def is_running(self) -> bool:
        return self.ended_us is None and self.started_us is not None

    @property
    def at_us(self) -> int | None:
        """When it was last known to be so, by the agent's clock."""
        return self.started_us if self.ended_us is None else self.ended_us


class Trace(msgspec.Struct, gc=False):
    """What an event told about a trace as a whole."""

    trace_id: str
    name: str
    group_id: str | None
    session_id: str | None
    started_us: int | None
    ended_us: int | None
    metadata: bytes


class Rejection(msgspec.Struct):
    """Why one event of a body was not stored, and where in it the reason lies."""

    index: int
    path: str
    message: str
