"""One check of a prompt, computed from its spans.

Pure: no clock, no database, no settings. The same spans give the same check in whatever order they arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ingest.decoding.facts import LOSSY_SHARE, FactCount, count_facts, count_facts_by_kind, weighted_share
from ingest.decoding.span_stats import stats_of
from viewer.kinds import (
    ARCHIVAL,
    BREAKER,
    CHECK,
    COMPLETED,
    DECISION,
    ERROR,
    ESTIMATE,
    GENERATION,
    OVERFLOW,
    POLICY,
    PRUNED,
    QUALITY,
    RETENTION,
    SUMMARY,
    count_removed,
)
from viewer.numbers import to_count, to_fraction
from viewer.sessions.spans import SpanRow, sort_key
from viewer.visibility.public_parts import Visibility

PARTS = ("system", "developer", "tools_schema", "memory", "history", "user_input")


@dataclass(slots=True)
class Check:
    """One preflight: the size of the prompt, the decision and its result.

    In a session whose client does not estimate prompts, a check is one model call.
    """

    key: str
    spans: dict[str, SpanRow] = field(default_factory=dict)
    started_at: datetime | None = None
    _first: dict[str, SpanRow] = field(default_factory=dict)

    def add(self, span: SpanRow) -> None:
        """Add a span, or replace it with its newer state."""
        self.spans[span.key] = span
        first = self._first.get(span.kind)
        if first is None or first.key == span.key or sort_key(span) < sort_key(first):
            self._first[span.kind] = span
        if span.started_at and (self.started_at is None or span.started_at < self.started_at):
            self.started_at = span.started_at

    def as_seen(self, visibility: Visibility) -> Check:
        """Return the check as a reader sees it."""
        seen = Check(self.key)
        for span in self.spans.values():
            seen.add(span.as_seen(visibility))
        return seen

    def span(self, kind: str) -> SpanRow | None:
        """Return the first span of a kind."""
        return self._first.get(kind)

    def spans_of(self, *kinds: str) -> list[SpanRow]:
        return sorted((span for span in self.spans.values() if span.kind in kinds), key=sort_key)

    def value(self, name: str, *kinds: str) -> Any:
        """Return the property `name` of the first of `kinds` that has it."""
        for kind in kinds:
            span = self.span(kind)
            if span is not None and span.data.get(name) is not None:
                return span.data[name]
        return None

    @property
    def lead(self) -> SpanRow:
        """The span that represents the check and that its bar links to."""
        return self.span(CHECK) or self.span(DECISION) or self.span(ESTIMATE) or min(self.spans.values(), key=sort_key)

    @property
    def ended_at(self) -> datetime | None:
        check = self.span(CHECK)
        if check is not None:
            return check.ended_at
        times = [span.ended_at for span in self.spans.values() if span.ended_at]
        return max(times) if times else None

    @property
    def duration_ms(self) -> float | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds() * 1000

    @property
    def is_running(self) -> bool:
        check = self.span(CHECK)
        return check is not None and check.ended_at is None

    @property
    def is_call(self) -> bool:
        return GENERATION in self._first

    @property
    def is_corrected_by_provider(self) -> bool:
        """True if the size before is the provider's count. It differs from the sum of the estimated messages."""
        return self.is_recovery or self.value("source", ESTIMATE) in {"usage", "provider"}

    @property
    def has_size(self) -> bool:
        """True if the size of the prompt is known. Lifecycle events alone do not say it."""
        return bool(self.before or self.is_compaction)

    @property
    def is_recovery(self) -> bool:
        """True if the provider rejected the prompt, and the compaction made it small enough."""
        return self.span(OVERFLOW) is not None or self.value("trigger", CHECK) == "overflow"

    @property
    def is_compaction(self) -> bool:
        """True if the prompt was compacted, is being compacted, or if that failed."""
        return self._is_triggered and not self.is_futile

    @property
    def is_futile(self) -> bool:
        """True if the trigger was reached, but the prompt stayed as it was because there was too little to gain."""
        details = self.value("details", COMPLETED)
        is_unchanged = isinstance(details, Mapping) and details.get("changed") is False
        return self.span(PRUNED) is None and (is_unchanged or self.is_paused)

    @property
    def is_paused(self) -> bool:
        """True if the client did not try to compact, because the last compactions freed almost nothing."""
        return self.span(BREAKER) is not None

    @property
    def _is_triggered(self) -> bool:
        if self.span(OVERFLOW) is not None:
            return True
        triggered = self.value("triggered", DECISION, CHECK)
        if triggered is not None:
            return bool(triggered)
        # Decisions of document 000 have no `triggered`. They have a pruned count.
        return any(self.span(kind) for kind in (PRUNED, SUMMARY)) or to_count(self.value("pruned_count", DECISION)) > 0

    @property
    def has_failed(self) -> bool:
        """True if a compaction was triggered but the prompt did not shrink."""
        is_finished = self.is_compaction and not self.is_running
        return is_finished and self.span(PRUNED) is None and self.span(ERROR) is not None

    @property
    def has_result(self) -> bool:
        """True if an event says that messages left the prompt, or how large it was afterward."""
        if any(self.span(kind) for kind in (PRUNED, OVERFLOW)) or self.after is not None:
            return True
        # The decision of document 000 is also the result.
        return self.value("triggered", DECISION, CHECK) is None and to_count(self.value("pruned_count", DECISION)) > 0

    @property
    def is_completed(self) -> bool:
        return self.has_result and not self.has_failed and not self.is_running

    @property
    def trigger(self) -> str:
        if self.is_recovery:
            return "overflow"
        return str(self.value("trigger", CHECK) or ("manual" if self.value("note", DECISION) else "preflight"))

    @property
    def before(self) -> int:
        if call := self.span(GENERATION):
            return stats_of(GENERATION, dict(call.data)).context_tokens or 0
        estimate = self.value("t_est", ESTIMATE, DECISION)
        return to_count(estimate or self.value("tokens_before", CHECK, PRUNED, OVERFLOW))

    @property
    def after(self) -> int | None:
        value = self.value("tokens_after", PRUNED, CHECK, OVERFLOW)
        return to_count(value) if value is not None and self.is_compaction else None

    @property
    def freed_tokens(self) -> int:
        return 0 if self.after is None else self.before - self.after

    @property
    def window(self) -> int:
        return to_count(self.value("max_tokens", ESTIMATE, DECISION, CHECK) or self.value("max", ESTIMATE, DECISION))

    @property
    def policy(self) -> Mapping[str, Any]:
        policy = self.value("policy", DECISION, POLICY)
        return policy if isinstance(policy, Mapping) else {}

    @property
    def trigger_tokens(self) -> int:
        value = self.value("trigger_tokens", DECISION)
        if value is None and self.policy.get("trigger_pct") is not None:
            return round(self.window * to_fraction(self.policy["trigger_pct"]))
        return to_count(value)

    @property
    def cap_tokens(self) -> int:
        value = self.value("budget_tokens", DECISION)
        buffer = self.policy.get("hard_cap_buffer", self.policy.get("buffer"))
        if value is None and buffer is not None:
            return max(0, self.window - to_count(buffer))
        return to_count(value)

    @property
    def margin(self) -> int | None:
        value = self.value("margin_tokens", DECISION)
        if value is not None:
            return to_count(value)
        return self.trigger_tokens - self.before if self.trigger_tokens else None

    @property
    def has_parts(self) -> bool:
        """True if the client reported the size of each part of the prompt."""
        return isinstance(self.value("breakdown", ESTIMATE), Mapping)

    @property
    def parts(self) -> list[int]:
        return _parts(self.value("breakdown", ESTIMATE)) if self.has_parts else [0, 0, 0, 0, self.before, 0]

    @property
    def after_parts(self) -> list[int] | None:
        """The parts after the compaction.

        If the client did not send them, assume that only memory and history changed.
        """
        breakdown = self._breakdown_after
        if breakdown is not None:
            return _parts(breakdown)
        if self.after is None or not self.has_parts:
            return None
        system, developer, tools, memory, _, user_input = self.parts
        memory = to_count(self.value("summary_tokens", SUMMARY)) or memory
        fixed = system + developer + tools + user_input
        memory = min(memory, max(0, self.after - fixed))
        return [system, developer, tools, memory, max(0, self.after - fixed - memory), user_input]

    @property
    def after_is_derived(self) -> bool:
        """True if the client did not send the parts after the compaction, so that those shown are estimates."""
        return self._breakdown_after is None and self.after_parts is not None

    @property
    def _breakdown_after(self) -> Mapping[str, Any] | None:
        breakdown = self.value("breakdown_after", PRUNED, CHECK)
        return breakdown if isinstance(breakdown, Mapping) else None

    @property
    def fates(self) -> dict[str, int]:
        fates = self.value("fates", PRUNED)
        return {str(name): to_count(count) for name, count in fates.items()} if isinstance(fates, Mapping) else {}

    @property
    def pruned_count(self) -> int:
        """The messages that left the prompt. The ledger has the same number, if the client sent one."""
        pruned = self.span(PRUNED)
        if pruned is not None and (count := count_removed(pruned.data)):
            return count
        return to_count(self.value("pruned_count", DECISION) or self.value("removed_count", OVERFLOW))

    @property
    def facts(self) -> FactCount | None:
        """The facts of the removed messages, or None if they were not counted. All figures about facts use this."""
        for kind in (RETENTION, QUALITY):
            span = self.span(kind)
            if span is not None and (facts := count_facts(span.data)) is not None:
                return facts if facts.total else None
        return None

    @property
    def facts_total(self) -> int | None:
        return self.facts.total if self.facts else None

    @property
    def facts_kept(self) -> int | None:
        return self.facts.kept if self.facts else None

    @property
    def facts_by_kind(self) -> dict[str, FactCount]:
        span = self.span(RETENTION)
        return count_facts_by_kind(span.data) if span else {}

    @property
    def weighted_retention(self) -> float | None:
        """The client's own share, in which facts that only a tool showed weigh less. Never a headline."""
        span = self.span(RETENTION)
        return weighted_share(span.data) if span else None

    @property
    def is_lossy(self) -> bool:
        """True if the compaction kept less than 90% of its facts."""
        if self.facts is not None:
            return self.facts.is_lossy
        return self.weighted_retention is not None and self.weighted_retention < LOSSY_SHARE

    @property
    def errors(self) -> list[SpanRow]:
        return self.spans_of(ERROR) if ERROR in self._first else []

    @property
    def error_message(self) -> str:
        """The message of the last error, or a placeholder if the client sent none."""
        data = self.errors[-1].data if self.errors else {}
        return str(data.get("message") or data.get("error_type") or "no reason given")

    @property
    def fallback(self) -> str:
        return next((str(span.data["fallback"]) for span in reversed(self.errors) if span.data.get("fallback")), "")

    @property
    def recovered_errors(self) -> list[str]:
        """The keys of errors after which the compaction used a fallback. They are not failures of the session."""
        return [span.key for span in self.errors if span.data.get("fallback")]

    @property
    def turn(self) -> int | None:
        value = self.value("turn", CHECK, ESTIMATE, DECISION)
        return to_count(value) if value is not None else None

    @property
    def step(self) -> int | None:
        value = self.value("step", PRUNED, CHECK, ARCHIVAL, SUMMARY)
        return to_count(value) if value is not None else None


def _parts(breakdown: Mapping[str, Any]) -> list[int]:
    # Document 002 calls the history `messages`.
    parts = breakdown if "history" in breakdown else {**breakdown, "history": breakdown.get("messages")}
    return [to_count(parts.get(part)) for part in PARTS]
