"""Add up what spans say about their session.

A session row is changed once for each commit, by what the commit's spans add. Sums are differences (a completed span is
taken off before it is put on again), extremes only grow, so a replay adds nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from ingest.decoding.records import Span, moment
from ingest.decoding.span_facts import NOTHING, Facts


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
        "trigger_us",
        "turns",
        "window",
        "window_us",
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
        self.window_us: int | None = None
        self.trigger_us: int | None = None
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
                self._learn(span.facts, span.at_us or 0)
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
        if (model := facts.model) and _is_newer(at, model, self.model_us, self.model):
            self.model, self.model_us = model, at
        if (tokens := facts.context_tokens) is not None:
            self.peak = max(self.peak, tokens)
            if _is_newer(at, tokens, self.tokens_us, self.tokens):
                self.tokens, self.tokens_us = tokens, at
        if (window := facts.window_tokens) and _is_newer(at, window, self.window_us, self.window):
            self.window, self.window_us = window, at
        if (trigger := facts.trigger_tokens) and _is_newer(at, trigger, self.trigger_us, self.trigger):
            self.trigger, self.trigger_us = trigger, at
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
            moment(self.window_us),
            self.trigger,
            moment(self.trigger_us),
            self.tokens,
            moment(self.tokens_us),
            self.retention,
        )


def _is_newer(at: int, value: Any, known_at: int | None, known: Any) -> bool:
    """Whether `value` is what holds: see `_LAST`."""
    return known_at is None or (at, value) > (known_at, known)


def added(sessions: Iterable[tuple[object, ...]]) -> dict[str, str]:
    """The parameters of `ADD`: an array for each column, written out; psycopg takes three times as long for them."""
    columns = zip(*sessions, strict=True)
    return {name: f"{{{','.join(map(_element, column))}}}" for name, column in zip(_COLUMNS, columns, strict=True)}


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if type(value) is int:
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


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
    "window_tokens": "int",
    "window_at": "timestamptz",
    "trigger_tokens": "int",
    "trigger_at": "timestamptz",
    "last_tokens": "int",
    "last_tokens_at": "timestamptz",
    "retention": "double precision",
}
# The last word about each of these holds, in whatever order they come; of two of the same moment, always the same one.
_LAST = {
    "model": "model_at",
    "window_tokens": "window_at",
    "trigger_tokens": "trigger_at",
    "last_tokens": "last_tokens_at",
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
  fallback_count = s.fallback_count + t.fallbacks, {last},
  peak_tokens = GREATEST(s.peak_tokens, t.peak), worst_retention = LEAST(s.worst_retention, t.retention)
FROM unnest({columns}) t ({names})
WHERE s.session_key = t.key AND s.session_key = ANY(%(key)s)
""".format(
    # Row by row the way Python compares, so that it does not matter either what came together.
    last=", ".join(
        f"""{name} = CASE WHEN t.{at} IS NOT NULL AND COALESCE(
    (s.{at}, s.{name}{collation}) < (t.{at}, t.{name}{collation}), true) THEN t.{name} ELSE s.{name} END,
  {at} = GREATEST(s.{at}, t.{at})"""
        for name, at in _LAST.items()
        for collation in [' COLLATE "C"' if _COLUMNS[name] == "text" else ""]
    ),
    columns=", ".join(f"%({name})s::{kind}[]" for name, kind in _COLUMNS.items()),
    names=", ".join(_COLUMNS),
)
# Before counting a session again from its spans.
CLEAR = """
UPDATE ingest_session SET span_count = 0, running_count = 0, error_count = 0, turn_count = 0, turn_span_count = 0,
  check_count = 0, compaction_count = 0, fallback_count = 0, model = '', model_at = NULL, peak_tokens = 0,
  window_tokens = 0, window_at = NULL, trigger_tokens = 0, trigger_at = NULL, last_tokens = 0, last_tokens_at = NULL,
  worst_retention = NULL, first_at = NULL, last_at = NULL
WHERE session_key = %s
"""
