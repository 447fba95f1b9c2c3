"""Update the aggregates of sessions from the spans of a commit.

Each commit updates a session row once. Counts are updated by differences: when a stored span is replaced, the old
version is subtracted first. Minima only fall and maxima only rise. A replay therefore changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from ingest.decoding.records import Span
from ingest.decoding.span_stats import NO_EVENT, NO_STATS, EventStats
from ingest.decoding.timestamps import to_datetime
from ingest.storage.database.pg_arrays import encode_array
from ingest.storage.figures.trends import TrendDelta, is_failure
from ingest.storage.figures.usage import UsageDelta


class SessionDelta:
    """Change that one commit makes to the aggregates of one session."""

    __slots__ = (
        "checks",
        "compactions",
        "errors",
        "facts_kept",
        "facts_total",
        "fallbacks",
        "first_us",
        "last_us",
        "max_turn",
        "model",
        "model_us",
        "overflows",
        "peak",
        "retention",
        "running",
        "spans",
        "tokens",
        "tokens_us",
        "trend",
        "trigger",
        "trigger_us",
        "turns",
        "usage",
        "window",
        "window_us",
        "worst",
    )

    def __init__(self) -> None:
        self.spans = self.running = self.errors = self.turns = 0
        self.checks = self.compactions = self.fallbacks = self.overflows = 0
        self.facts_total = self.facts_kept = 0
        self.max_turn = self.peak = self.window = self.trigger = self.tokens = 0
        self.first_us: int | None = None
        self.last_us: int | None = None
        self.model = ""
        self.model_us: int | None = None
        self.tokens_us: int | None = None
        self.window_us: int | None = None
        self.trigger_us: int | None = None
        self.retention: float | None = None
        self.usage: UsageDelta | None = None
        self.trend: TrendDelta | None = None
        # Of the compaction that lost most facts: lost, total, and the name of its check.
        self.worst: tuple[int, int, str] | None = None

    def add(self, spans: Iterable[Span]) -> None:
        first, last = self.first_us, self.last_us
        for span in spans:
            started, ended = span.started_us, span.ended_us
            begin = ended if started is None else started
            end = started if ended is None else ended
            if begin is not None and end is not None:
                # The agent's clock may have been set back between start and end.
                if begin > end:
                    begin, end = end, begin
                if first is None or begin < first:
                    first = begin
                if last is None or end > last:
                    last = end
            self._count(span, 1)
            if span.stats is not NO_STATS:
                self._add_stats(span)
        self.first_us, self.last_us = first, last

    def subtract(self, spans: Iterable[Span]) -> None:
        """Remove the stored versions of spans that are replaced from the counts."""
        for span in spans:
            self._count(span, -1)

    def extend(self, started_us: int | None, ended_us: int | None) -> None:
        """Extend the session's time range."""
        for at in (started_us, ended_us):
            if at is not None:
                self.first_us = at if self.first_us is None else min(self.first_us, at)
                self.last_us = at if self.last_us is None else max(self.last_us, at)

    def _add_stats(self, span: Span) -> None:
        stats, at = span.stats, span.at_us or 0
        if (model := stats.model) and _is_newer(at, model, self.model_us, self.model):
            self.model, self.model_us = model, at
        if (tokens := stats.context_tokens) is not None:
            self.peak = max(self.peak, tokens)
            if _is_newer(at, tokens, self.tokens_us, self.tokens):
                self.tokens, self.tokens_us = tokens, at
        if stats.event is not NO_EVENT:
            self._add_event(stats.event, at)
            if stats.event.facts_total:
                self._add_facts(span)

    def _add_event(self, event: EventStats, at: int) -> None:
        self.max_turn = max(self.max_turn, event.turn)
        if (window := event.window_tokens) and _is_newer(at, window, self.window_us, self.window):
            self.window, self.window_us = window, at
        if (trigger := event.trigger_tokens) and _is_newer(at, trigger, self.trigger_us, self.trigger):
            self.trigger, self.trigger_us = trigger, at
        if event.retention is not None:
            self.retention = event.retention if self.retention is None else min(self.retention, event.retention)

    def _add_facts(self, span: Span) -> None:
        total, kept = span.stats.event.facts_total, span.stats.event.facts_kept
        facts = (total - kept, total, f"{span.trace_id}:{span.parent_id or span.span_id}")
        if self.worst is None or facts > self.worst:
            self.worst = facts

    def _count(self, span: Span, sign: int) -> None:
        self.spans += sign
        if span.ended_us is None and span.started_us is not None:
            self.running += sign
        stats = span.stats
        if (usage := stats.usage) is not None:
            if self.usage is None:
                self.usage = UsageDelta()
            self.usage.add(usage, span.at_us, sign)
        if stats.event is not NO_EVENT:
            self._count_event(stats.event, sign)
        if stats.event is not NO_EVENT or span.status == "error":
            self._count_trend(span, sign)

    def _count_trend(self, span: Span, sign: int) -> None:
        has_failed = is_failure(span)
        self.errors += sign * has_failed
        if has_failed or span.stats.event.is_trend:
            if self.trend is None:
                self.trend = TrendDelta()
            self.trend.add(span, sign)

    def _count_event(self, event: EventStats, sign: int) -> None:
        self.turns += sign * event.is_turn
        self.checks += sign * event.is_check
        self.compactions += sign * event.is_compaction
        self.fallbacks += sign * event.is_fallback
        self.facts_total += sign * event.facts_total
        self.facts_kept += sign * event.facts_kept
        self.overflows += sign * event.is_overflow

    def row(self, session_key: uuid.UUID, seq: int) -> tuple[object, ...]:
        """Return the values for `update_parameters`, in the order of `_COLUMNS`. `seq` is the session's new number."""
        return (
            session_key,
            seq,
            to_datetime(self.first_us),
            to_datetime(self.last_us),
            self.spans,
            self.running,
            self.errors,
            self.turns,
            self.max_turn,
            self.checks,
            self.compactions,
            self.fallbacks,
            self.facts_total,
            self.facts_kept,
            self.model,
            to_datetime(self.model_us),
            self.peak,
            self.window,
            to_datetime(self.window_us),
            self.trigger,
            to_datetime(self.trigger_us),
            self.tokens,
            to_datetime(self.tokens_us),
            self.retention,
            self.overflows,
            *(self.worst or (None, None, None)),
        )


def _is_newer(at: int, value: Any, known_at: int | None, known: Any) -> bool:
    """True if `value` replaces `known`: see `_LATEST`."""
    if known_at is None or at != known_at:
        return known_at is None or at > known_at
    return bool(value > known)


def update_parameters(sessions: Iterable[tuple[object, ...]]) -> dict[str, str]:
    """Return the parameters of `UPDATE_SESSIONS`: an array for each column, given a row for each session."""
    columns = zip(*sessions, strict=True)
    return {name: encode_array(column) for name, column in zip(_COLUMNS, columns, strict=True)}


_COLUMNS = {
    "key": "uuid",
    "seq": "bigint",
    "first_at": "timestamptz",
    "last_at": "timestamptz",
    "spans": "int",
    "running": "int",
    "errors": "int",
    "turns": "int",
    "max_turn": "int",
    "checks": "int",
    "compactions": "int",
    "fallbacks": "int",
    "facts_total": "int",
    "facts_kept": "int",
    "model": "text",
    "model_at": "timestamptz",
    "peak": "int",
    "window_tokens": "int",
    "window_at": "timestamptz",
    "trigger_tokens": "int",
    "trigger_at": "timestamptz",
    "last_tokens": "int",
    "last_tokens_at": "timestamptz",
    "retention": "double precision",
    "overflows": "int",
    "worst_lost": "int",
    "worst_total": "int",
    "worst_check": "text",
}
# Columns for which the latest value wins, in whatever order the events arrive. Of two values with the same time, the
# greater one wins.
_LATEST = {
    "model": "model_at",
    "window_tokens": "window_at",
    "trigger_tokens": "trigger_at",
    "last_tokens": "last_tokens_at",
}
_WORSE = """t.worst_total IS NOT NULL AND COALESCE((s.worst_lost, s.worst_total, s.worst_check COLLATE "C")
    < (t.worst_lost, t.worst_total, t.worst_check COLLATE "C"), true)"""
# One statement for any number of sessions. The keys occur twice because Citus finds the shards by the second list.
# Citus accepts only immutable functions here, so the statement cannot use JSON functions or time arithmetic.
UPDATE_SESSIONS = """
UPDATE ingest_session s SET
  last_seq = GREATEST(s.last_seq, t.seq),
  first_at = LEAST(s.first_at, t.first_at), last_at = GREATEST(s.last_at, t.last_at),
  span_count = s.span_count + t.spans, running_count = s.running_count + t.running,
  error_count = s.error_count + t.errors, turn_span_count = s.turn_span_count + t.turns,
  turn_count = GREATEST(s.turn_count, s.turn_span_count + t.turns, t.max_turn),
  check_count = s.check_count + t.checks, compaction_count = s.compaction_count + t.compactions,
  fallback_count = s.fallback_count + t.fallbacks, overflow_count = s.overflow_count + t.overflows,
  facts_total = s.facts_total + t.facts_total, facts_kept = s.facts_kept + t.facts_kept, {latest},
  peak_tokens = GREATEST(s.peak_tokens, t.peak), worst_retention = LEAST(s.worst_retention, t.retention), {worst}
FROM unnest({columns}) t ({names})
WHERE s.session_key = t.key AND s.session_key = ANY(%(key)s)
RETURNING s.session_key, s.model, s.trend_model
""".format(
    # Rows are compared as in Python (`_is_newer`), so that grouping into commits does not matter.
    latest=", ".join(
        f"""{name} = CASE WHEN t.{at} IS NOT NULL AND COALESCE(
    (s.{at}, s.{name}{collation}) < (t.{at}, t.{name}{collation}), true) THEN t.{name} ELSE s.{name} END,
  {at} = GREATEST(s.{at}, t.{at})"""
        for name, at in _LATEST.items()
        for collation in [' COLLATE "C"' if _COLUMNS[name] == "text" else ""]
    ),
    # The compaction that lost most facts, then the one with more facts, so that the order of events does not matter.
    worst=", ".join(
        f"{name} = CASE WHEN {_WORSE} THEN t.{name} ELSE s.{name} END"
        for name in ("worst_lost", "worst_total", "worst_check")
    ),
    columns=", ".join(f"%({name})s::{kind}[]" for name, kind in _COLUMNS.items()),
    names=", ".join(_COLUMNS),
)
# Run before a session is aggregated again from its spans.
RESET_SESSION = """
UPDATE ingest_session SET span_count = 0, running_count = 0, error_count = 0, turn_count = 0, turn_span_count = 0,
  check_count = 0, compaction_count = 0, fallback_count = 0, facts_total = 0, facts_kept = 0,
  model = '', model_at = NULL, peak_tokens = 0, window_tokens = 0,
  window_at = NULL, trigger_tokens = 0, trigger_at = NULL, last_tokens = 0, last_tokens_at = NULL,
  worst_retention = NULL, first_at = NULL, last_at = NULL, overflow_count = 0, worst_lost = NULL, worst_total = NULL,
  worst_check = NULL, trend_model = NULL
WHERE session_key = %s
"""
