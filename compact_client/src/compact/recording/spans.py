"""The parts of a recorded session: spans, and the link to the session that it continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from compact.ledgers.foreign_compaction import MAIN, Compaction

RecordedSpanKind = Literal["user", "generation", "tool", "agent", "compaction"]


@dataclass(slots=True)
class RecordedSpan:
    """One user message, model call, tool call, sub-agent or compaction of a session.

    `key` is unique in the session and comes from the agent's own ids, so that recording a session again gives the same
    span ids.
    """

    kind: RecordedSpanKind
    name: str
    started_at: str | None = None
    ended_at: str | None = None
    model: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False
    key: str = ""
    parent: str | None = MAIN
    """The key of the span around this one: `MAIN` for the session itself, None if the source does not say."""
    thread: str = MAIN
    breakdown: Mapping[str, int] | None = None
    """The parts of the prompt of a model call, if it was seen as it was sent."""
    compaction: Compaction | None = None


@dataclass(frozen=True, slots=True)
class SessionLink:
    """The session that this one continues."""

    kind: Literal["resumed", "forked"]
    session_id: str
