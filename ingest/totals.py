"""Add up what spans say about their session.

A session row is changed once for each commit, by what the commit's spans add. Sums are differences (a completed span is
taken off before it is put on again), extremes only grow, so a replay adds nothing.
"""

from __future__ import annotations

from ingest.events import Span, moment
from ingest.facts import NOTHING


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

    def add(self, span: Span) -> None:
        started, ended = span.started_us, span.ended_us
        self.stretch(started, ended)
        self._count(span, 1)
        facts = span.facts
        if facts is NOTHING:
            return
        at = started if started is not None else ended or 0
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

    def take_off(self, span: Span) -> None:
        """Uncount a stored span that is about to be added in its completed form."""
        self._count(span, -1)

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

    def stretch(self, started_us: int | None, ended_us: int | None) -> None:
        first, last = self.first_us, self.last_us
        if started_us is not None:
            if first is None or started_us < first:
                self.first_us = first = started_us
            if last is None or started_us > last:
                self.last_us = last = started_us
        if ended_us is not None:
            if first is None or ended_us < first:
                self.first_us = ended_us
            if last is None or ended_us > last:
                self.last_us = ended_us

    def parameters(self) -> dict[str, object]:
        return {
            "spans": self.spans,
            "running": self.running,
            "errors": self.errors,
            "turns": self.turns,
            "max_turn": self.max_turn,
            "checks": self.checks,
            "compactions": self.compactions,
            "fallbacks": self.fallbacks,
            "first": moment(self.first_us),
            "last": moment(self.last_us),
            "model": self.model,
            "model_at": moment(self.model_us),
            "peak": self.peak,
            "window": self.window,
            "trigger": self.trigger,
            "tokens": self.tokens,
            "tokens_at": moment(self.tokens_us),
            "retention": self.retention,
        }


ADD = """
UPDATE ingest_session SET
  last_seq = GREATEST(last_seq, %(seq)s),
  first_at = LEAST(first_at, %(first)s::timestamptz), last_at = GREATEST(last_at, %(last)s::timestamptz),
  span_count = span_count + %(spans)s, running_count = running_count + %(running)s,
  error_count = error_count + %(errors)s, turn_span_count = turn_span_count + %(turns)s,
  turn_count = GREATEST(turn_count, turn_span_count + %(turns)s, %(max_turn)s),
  check_count = check_count + %(checks)s, compaction_count = compaction_count + %(compactions)s,
  fallback_count = fallback_count + %(fallbacks)s,
  model = CASE WHEN %(model)s::text <> '' AND (model_at IS NULL OR model_at <= %(model_at)s::timestamptz)
    THEN %(model)s::text ELSE model END,
  model_at = GREATEST(model_at, %(model_at)s::timestamptz),
  peak_tokens = GREATEST(peak_tokens, %(peak)s),
  window_tokens = CASE WHEN %(window)s::integer > 0
    AND COALESCE(last_tokens_at <= %(tokens_at)s::timestamptz, true) THEN %(window)s::integer ELSE window_tokens END,
  trigger_tokens = CASE WHEN %(trigger)s::integer > 0
    AND COALESCE(last_tokens_at <= %(tokens_at)s::timestamptz, true) THEN %(trigger)s::integer ELSE trigger_tokens END,
  last_tokens = CASE WHEN last_tokens_at IS NULL OR last_tokens_at <= %(tokens_at)s::timestamptz
    THEN %(tokens)s::integer ELSE last_tokens END,
  last_tokens_at = GREATEST(last_tokens_at, %(tokens_at)s::timestamptz),
  worst_retention = LEAST(worst_retention, %(retention)s::double precision)
WHERE session_key = %(session_key)s
"""
# Before counting a session again from its spans.
CLEAR = """
UPDATE ingest_session SET span_count = 0, running_count = 0, error_count = 0, turn_count = 0, turn_span_count = 0,
  check_count = 0, compaction_count = 0, fallback_count = 0, model = '', model_at = NULL, peak_tokens = 0,
  window_tokens = 0, trigger_tokens = 0, last_tokens = 0, last_tokens_at = NULL, worst_retention = NULL,
  first_at = NULL, last_at = NULL
WHERE session_key = %s
"""
