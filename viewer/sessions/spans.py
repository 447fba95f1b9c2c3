"""A span as the viewer reads it: everything except the payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from viewer.kinds import CHECK


@dataclass(frozen=True, slots=True)
class SpanRow:
    """A span without its payload."""

    trace_id: str
    span_id: str
    parent_id: str | None
    kind: str
    name: str
    status: str
    started_at: datetime | None
    ended_at: datetime | None
    tokens: int | None
    seq: int
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.trace_id}:{self.span_id}"


def sort_key(span: SpanRow) -> tuple[bool, float, int, int]:
    """Return the chronological order of spans. Spans without a time come last, a check before its children."""
    time = span.started_at or span.ended_at
    return (time is None, time.timestamp() if time else 0.0, span.kind != CHECK, span.seq)
