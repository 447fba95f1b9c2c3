"""A span as the viewer reads it: everything except the payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from viewer.kinds import CHECK, DECISION, ESTIMATE
from viewer.visibility.public_parts import Visibility, public_data, public_kind, public_name


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

    def as_seen(self, visibility: Visibility) -> SpanRow:
        """Return the span as a reader sees it. Without the right to view payloads, content is hidden."""
        if visibility is Visibility.CONTENT:
            return self
        name, data = public_name(self.kind, self.name), public_data(self.kind, self.data)
        return replace(self, kind=public_kind(self.kind), name=name, data=data)


# The order of events of one check that have the same time.
_RANKS = {CHECK: 0, ESTIMATE: 1, DECISION: 2}


def sort_key(span: SpanRow) -> tuple[bool, float, int, int]:
    """Return the chronological order of spans. Spans without a time come last, a check before its children."""
    time = span.started_at or span.ended_at
    return (time is None, time.timestamp() if time else 0.0, _RANKS.get(span.kind, 3), span.seq)
