"""The checks of one session, grouped from its spans.

Pure: the same spans give the same checks in whatever order they arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from viewer.kinds import CHECK, DECISION, ESTIMATE, GENERATION, PREFIX, PROVIDER_COMPACTION
from viewer.sessions.checks import Check
from viewer.sessions.spans import SpanRow, sort_key

# The turns that a projection is based on. After a compaction, the pace of one or two turns is not representative.
_PACE_TURNS = 20


class SessionChecks:
    """The checks of one session, updated span by span."""

    def __init__(self, spans: Iterable[SpanRow] = ()) -> None:
        self._checks: dict[str, Check] = {}
        self._check_key_of_span: dict[str, str] = {}
        self._current: dict[str, str] = {}  # per parent: the key of the check that takes the next event
        self.has_estimates = False
        """True if the client estimates prompts. Otherwise model calls show how large the prompts were."""
        self.provider_compactions: set[str] = set()
        """Keys of the spans that report what a provider compacted on its own side."""
        self.add(spans)

    def is_relevant(self, span: SpanRow) -> bool:
        """Return True if the span belongs to a check of this session."""
        return span.kind.startswith(PREFIX) or (span.kind == GENERATION and not self.has_estimates)

    def add(self, spans: Iterable[SpanRow]) -> set[str]:
        """Add spans or their newer states, and return the keys of the checks that changed."""
        changed = set()
        for span in sorted(filter(self.is_relevant, spans), key=sort_key):
            if span.kind == PROVIDER_COMPACTION:
                self.provider_compactions.add(span.key)
            key = self._check_key_of_span.get(span.key) or self._choose_check(span)
            self._check_key_of_span[span.key] = key
            check = self._checks.setdefault(key, Check(key))
            check.add(span)
            if span.key != key and span.key in self._checks:
                # Its children arrived first and formed a check under its key.
                for child in self._checks.pop(span.key).spans.values():
                    check.add(child)
                    self._check_key_of_span[child.key] = key
                changed.discard(span.key)
            changed.add(key)
            self.has_estimates = self.has_estimates or (check.has_size and not check.is_call)
        return changed

    def get(self, key: str) -> Check | None:
        return self._checks.get(key)

    def check_of_span(self, span_key: str) -> Check | None:
        return self._checks.get(self._check_key_of_span.get(span_key, span_key))

    def check_below(self, span: SpanRow) -> Check | None:
        """Return the check directly below a span, such as that of a turn. A compaction comes first."""
        below = [
            check
            for check in self._checks.values()
            if check.lead.parent_id == span.span_id and check.lead.trace_id == span.trace_id and not check.is_call
        ]
        return max(below, key=lambda check: check.is_compaction, default=None)

    def spans(self) -> Iterable[SpanRow]:
        """Return every span of every check in chronological order."""
        spans = (span for check in self._checks.values() for span in check.spans.values())
        return sorted(spans, key=sort_key)

    def is_drawn(self, check: Check) -> bool:
        """Return True if the timeline has a bar for the check. Model calls have one only if there are no estimates."""
        return check.has_size and check.is_call != self.has_estimates

    def timeline(self) -> list[Check]:
        """Return the checks of the timeline in chronological order."""
        return sorted(
            filter(self.is_drawn, self._checks.values()),
            key=lambda check: (check.started_at is None, check.started_at, check.lead.seq),
        )

    def compactions(self) -> list[Check]:
        return [check for check in self.timeline() if check.is_compaction]

    def _choose_check(self, span: SpanRow) -> str:
        if span.kind in {CHECK, GENERATION}:
            return span.key
        parent = f"{span.trace_id}:{span.parent_id or ''}"
        if parent in self._check_key_of_span:
            return self._check_key_of_span[parent]
        current = self._current.get(parent, parent)
        check = self._checks.get(current)
        # Flat events of other clients share a parent or have none. Each estimate starts the next check.
        if check and span.kind in {ESTIMATE, DECISION} and check.span(span.kind) and not check.span(CHECK):
            current = span.key
        self._current[parent] = current
        return current


def projected_turns(checks: list[Check]) -> int | None:
    """Return the turns until the next compaction if the prompt keeps growing at its recent pace."""
    recent = checks[-_PACE_TURNS - 1 :]
    last = recent[-1] if recent else None
    if last is None or last.is_compaction or not last.trigger_tokens:
        return None
    growth = sum(
        check.before - (previous.before if previous.after is None else previous.after)
        for previous, check in pairwise(recent)
    )
    if growth <= 0:
        return None
    left = last.trigger_tokens - last.before
    return max(0, -(-left * (len(recent) - 1) // growth))
