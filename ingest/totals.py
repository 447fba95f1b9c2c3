"""Add up what spans say about their session.

A session row is changed once for each commit, by what the commit's spans add. Sums are differences (a completed span is
taken off before it is put on again), extremes only grow, so a replay adds nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from ingest.events import Span, moment
from ingest.facts import NOTHING, Facts


class Totals:
    """What one commit adds to one session."""

    __slots__ = (
        "checks",
        "compactions",
        "errors",
        "fallbacks",
        "first_us",
        "last_us",
        "max_turn",
        "model",
        "model_us",
        "peak",
        "retention",
        "running",
        "spans",
        "tokens",
        "tokens_us",
        "trigger",
        "turns",
        "window",
    )

    def __init__(self) -> None:
        self.spans = self.running = self.errors = self.turns = 0
        self.checks = self.compactions = self.fallbacks = 0
        self.max_turn = self.peak = self.window = self.trigger = self.tokens = 0
        self.first_us: int | None = None
        self.last_us: int | None = None
        self.model = ""
        self.model_us: int | None = None
        self.tokens_us: int | None = None
        self.retention: float | None = None

    def add(self, spans: Iterable[Span]) -> None:
        first, last = self.first_us, self.last_us
        for span in spans:
            started, ended = span.started_us, span.ended_us
            begin = ended if started is None else started
            end = started if ended is None else ended
            if begin is not None and end is not None:
                # A clock may run backwards: the end can come first.
                if begin > end:
                    begin, end = end, begin
                if first is None or begin < first:
                    first = begin
                if last is None or end > last:
                    last = end
            self._count(span, 1)
            if span.facts is not NOTHING:
                self._learn(span.facts, started if started is not None else ended or 0)
        self.first_us, self.last_us = first, last

    def take_off(self, spans: Iterable[Span]) -> None:
        """Uncount stored spans that are about to be added in their completed form."""
        for span in spans:
            self._count(span, -1)

    def stretch(self, started_us: int | None, ended_us: int | None) -> None:
        for at in (started_us, ended_us):
            if at is not None:
                self.first_us = at if self.first_us is None else min(self.first_us, at)
                self.last_us = at if self.last_us is None else max(self.last_us, at)

    def _learn(self, facts: Facts, at: int) -> None:
        self.max_turn = max(self.max_turn, facts.turn)
        if facts.model and (self.model_us is None or at >= self.model_us):
            self.model, self.model_us = facts.model, at
        if facts.context_tokens is not None:
            self.peak = max(self.peak, facts.context_tokens)
            if self.tokens_us is None or at >= self.tokens_us:
                self.tokens, self.tokens_us = facts.context_tokens, at
        # Of a policy, what was decided last is what holds.
        if (facts.window_tokens or facts.trigger_tokens) and (self.tokens_us is None or at >= self.tokens_us):
            self.window = facts.window_tokens or self.window
            self.trigger = facts.trigger_tokens or self.trigger
        if facts.retention is not None:
            self.retention = facts.retention if self.retention is None else min(self.retention, facts.retention)

    def _count(self, span: Span, sign: int) -> None:
        self.spans += sign
        if span.ended_us is None and span.started_us is not None:
            self.running += sign
        if span.status == "error":
            self.errors += sign
        facts = span.facts
        if facts is not NOTHING:
            self.turns += sign * facts.is_turn
            self.checks += sign * facts.is_check
            self.compactions += sign * facts.is_compaction
            self.fallbacks += sign * facts.is_fallback

    def row(self, session_key: uuid.UUID, seq: int) -> tuple[object, ...]:
        """One session's part of what `added` takes; `seq` is its newest number. In the order of `ADD`."""
        return (
            session_key,
            seq,
            moment(self.first_us),
            moment(self.last_us),
            self.spans,
            self.running,
            self.errors,
            self.turns,
            self.max_turn,
            self.checks,
            self.compactions,
            self.fallbacks,
            self.model,
            moment(self.model_us),
            self.peak,
            self.window,
            self.trigger,
            self.tokens,
            moment(self.tokens_us),
            self.retention,
        )


def added(sessions: Iterable[tuple[object, ...]]) -> dict[str, list[object]]:
    """The parameters of `ADD`: a list for each column."""
    return dict(zip(_COLUMNS, map(list, zip(*sessions, strict=True)), strict=True))


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
    "model": "text",
    "model_at": "timestamptz",
    "peak": "int",
    "window": "int",
    "trigger": "int",
    "tokens": "int",
    "tokens_at": "timestamptz",
    "retention": "double precision",
}
# One statement however many sessions. The keys stand in it twice: by the second list Citus finds the shards to ask.
# It takes only immutable functions here, which those that read JSON, or add to a time, are not.
ADD = """
UPDATE ingest_session s SET
  last_seq = GREATEST(s.last_seq, t.seq),
  first_at = LEAST(s.first_at, t.first_at), last_at = GREATEST(s.last_at, t.last_at),
  span_count = s.span_count + t.spans, running_count = s.running_count + t.running,
  error_count = s.error_count + t.errors, turn_span_count = s.turn_span_count + t.turns,
  turn_count = GREATEST(s.turn_count, s.turn_span_count + t.turns, t.max_turn),
  check_count = s.check_count + t.checks, compaction_count = s.compaction_count + t.compactions,
  fallback_count = s.fallback_count + t.fallbacks,
  model = CASE WHEN t.model <> '' AND COALESCE(s.model_at <= t.model_at, true) THEN t.model ELSE s.model END,
  model_at = GREATEST(s.model_at, t.model_at),
  peak_tokens = GREATEST(s.peak_tokens, t.peak),
  window_tokens = CASE WHEN t."window" > 0 AND COALESCE(s.last_tokens_at <= t.tokens_at, true)
    THEN t."window" ELSE s.window_tokens END,
  trigger_tokens = CASE WHEN t.trigger > 0 AND COALESCE(s.last_tokens_at <= t.tokens_at, true)
    THEN t.trigger ELSE s.trigger_tokens END,
  last_tokens = CASE WHEN s.last_tokens_at IS NULL OR s.last_tokens_at <= t.tokens_at
    THEN t.tokens ELSE s.last_tokens END,
  last_tokens_at = GREATEST(s.last_tokens_at, t.tokens_at),
  worst_retention = LEAST(s.worst_retention, t.retention)
FROM unnest({columns}) t ({names})
WHERE s.session_key = t.key AND s.session_key = ANY(%(key)s)
""".format(
    columns=", ".join(f"%({name})s::{kind}[]" for name, kind in _COLUMNS.items()),
    names=", ".join(f'"{name}"' for name in _COLUMNS),
)
# Before counting a session again from its spans.
CLEAR = """
UPDATE ingest_session SET span_count = 0, running_count = 0, error_count = 0, turn_count = 0, turn_span_count = 0,
  check_count = 0, compaction_count = 0, fallback_count = 0, model = '', model_at = NULL, peak_tokens = 0,
  window_tokens = 0, trigger_tokens = 0, last_tokens = 0, last_tokens_at = NULL, worst_retention = NULL,
  first_at = NULL, last_at = NULL
WHERE session_key = %s
"""
