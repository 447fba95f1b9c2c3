"""One check of a prompt, computed from its spans.

Pure: no clock, no database, no settings. The same spans give the same check in whatever order they arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from compact.events import (
    CATALOG,
    PROMPT_PARTS,
    ArchivalEvent,
    CheckEvent,
    Event,
    OverflowRecoveredEvent,
    PolicyAppliedEvent,
    PrunedMessagesEvent,
    SummaryCreatedEvent,
    TokenEstimateEvent,
    TriggerDecisionEvent,
)
from compact.events.reading import CheckResult, Outcome, event_of, fallback_of, freed_tokens

from ingest.decoding.facts import LOSSY_SHARE, FactCount, count_facts, count_facts_by_kind, weighted_share
from ingest.decoding.span_stats import stats_of
from viewer.kinds import BREAKER, CHECK, DECISION, ERROR, ESTIMATE, GENERATION, QUALITY, RETENTION
from viewer.numbers import to_count, to_fraction
from viewer.sessions.spans import SpanRow, sort_key
from viewer.visibility.public_parts import Visibility

_CLASSES = {event.name: event for event in CATALOG}
E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class Check:
    """One preflight: the size of the prompt, the decision and its result.

    In a session whose client does not estimate prompts, a check is one model call.
    """

    key: str
    report: str = ""
    """Key of the span that counts as the report of a compaction. See `compact.events.check_result`."""
    spans: dict[str, SpanRow] = field(default_factory=dict)
    started_at: datetime | None = None
    _first: dict[str, SpanRow] = field(default_factory=dict)
    _events: dict[type[Event], Event | None] = field(default_factory=dict)
    _result: CheckResult | None = None

    def add(self, span: SpanRow) -> None:
        """Add a span, or replace it with its newer state."""
        self.spans[span.key] = span
        self._result = None
        first = self._first.get(span.kind)
        if first is None or first.key == span.key or sort_key(span) < sort_key(first):
            self._first[span.kind] = span
            if event_class := _CLASSES.get(span.kind):
                self._events.pop(event_class, None)
        if span.started_at and (self.started_at is None or span.started_at < self.started_at):
            self.started_at = span.started_at

    def as_seen(self, visibility: Visibility) -> Check:
        """Return the check as a reader sees it."""
        seen = Check(self.key, self.report)
        for span in self.spans.values():
            seen.add(span.as_seen(visibility))
        return seen

    def span(self, kind: str) -> SpanRow | None:
        """Return the first span of a kind."""
        return self._first.get(kind)

    def spans_of(self, *kinds: str) -> list[SpanRow]:
        return sorted((span for span in self.spans.values() if span.kind in kinds), key=sort_key)

    def event(self, event_class: type[E]) -> E | None:
        """Return the first event of a class. Its properties are None if the client did not send them."""
        if event_class not in self._events:
            span = self._first.get(event_class.name)
            self._events[event_class] = None if span is None else event_of(span.kind, span.data)
        return self._events[event_class]  # type: ignore[return-value]

    @property
    def result(self) -> CheckResult:
        """The size of the prompt before and after the check, and what became of it."""
        if self._result is None:
            events = {
                event_class: event
                for kind in self._first
                if (event_class := _CLASSES.get(kind)) and (event := self.event(event_class))
            }
            self._result = CheckResult.of(events, has_report=bool(self.report), is_open=self.is_running)
        return self._result

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
        estimate = self.event(TokenEstimateEvent)
        return self.is_recovery or (estimate is not None and estimate.source in {"usage", "provider"})

    @property
    def has_size(self) -> bool:
        """True if the size of the prompt is known. Lifecycle events alone do not say it."""
        return bool(self.before or self.outcome != "not_needed")

    @property
    def is_recovery(self) -> bool:
        """True if the provider rejected the prompt, and the compaction made it small enough."""
        check = self.event(CheckEvent)
        return self.event(OverflowRecoveredEvent) is not None or (check is not None and check.trigger == "overflow")

    @property
    def outcome(self) -> Outcome:
        return self.result.outcome

    @property
    def is_compaction(self) -> bool:
        """True if the check counts as a compaction of its session: messages left the prompt."""
        return self.result.counts_as == "compaction"

    @property
    def has_failed(self) -> bool:
        """True if a compaction was triggered but the prompt did not shrink."""
        return self.result.counts_as == "failure"

    @property
    def is_futile(self) -> bool:
        """True if the trigger was reached, but the prompt stayed as it was because there was too little to gain."""
        return self.outcome == "futile"

    @property
    def is_paused(self) -> bool:
        """True if the client did not try to compact, because the last compactions freed almost nothing."""
        return BREAKER in self._first

    @property
    def trigger(self) -> str:
        if self.is_recovery:
            return "overflow"
        check, decision = self.event(CheckEvent), self.event(TriggerDecisionEvent)
        is_manual = decision is not None and decision.note
        return (check and check.trigger) or ("manual" if is_manual else "preflight")

    @property
    def before(self) -> int:
        if call := self.span(GENERATION):
            return stats_of(GENERATION, dict(call.data)).context_tokens or 0
        return self.result.before

    @property
    def after(self) -> int | None:
        return self.result.after

    @property
    def freed_tokens(self) -> int:
        """The tokens that the compaction freed. The figure of a session or a period is the sum of these."""
        return freed_tokens(self.before, self.after)

    @property
    def window(self) -> int:
        events = (self.event(TokenEstimateEvent), self.event(TriggerDecisionEvent), self.event(CheckEvent))
        return next((event.max_tokens for event in events if event and event.max_tokens), 0)

    @property
    def policy(self) -> Mapping[str, Any]:
        decision, applied = self.event(TriggerDecisionEvent), self.event(PolicyAppliedEvent)
        return (decision and decision.policy) or (applied and applied.policy) or {}

    @property
    def trigger_tokens(self) -> int:
        decision = self.event(TriggerDecisionEvent)
        if decision is not None and decision.trigger_tokens is not None:
            return decision.trigger_tokens
        return round(self.window * to_fraction(self.policy.get("trigger_pct")))

    @property
    def cap_tokens(self) -> int:
        decision = self.event(TriggerDecisionEvent)
        if decision is not None and decision.budget_tokens is not None:
            return decision.budget_tokens
        buffer = self.policy.get("hard_cap_buffer")
        return 0 if buffer is None else max(0, self.window - to_count(buffer))

    @property
    def margin(self) -> int | None:
        decision = self.event(TriggerDecisionEvent)
        if decision is not None and decision.margin_tokens is not None:
            return decision.margin_tokens
        return self.trigger_tokens - self.before if self.trigger_tokens else None

    @property
    def _breakdown(self) -> Mapping[str, Any] | None:
        estimate = self.event(TokenEstimateEvent)
        return None if estimate is None else estimate.breakdown

    @property
    def has_parts(self) -> bool:
        """True if the client reported the size of each part of the prompt."""
        return self._breakdown is not None

    @property
    def parts(self) -> list[int]:
        breakdown = self._breakdown
        return [0, 0, 0, 0, self.before, 0] if breakdown is None else _sizes(breakdown)

    @property
    def after_parts(self) -> list[int] | None:
        """The parts after the compaction.

        If the client did not send them, assume that only memory and history changed.
        """
        breakdown = self._breakdown_after
        if breakdown is not None:
            return _sizes(breakdown)
        if self.after is None or not self.has_parts:
            return None
        system, developer, tools, memory, _, user_input = self.parts
        summary = self.event(SummaryCreatedEvent)
        memory = (summary and summary.summary_tokens) or memory
        fixed = system + developer + tools + user_input
        memory = min(memory, max(0, self.after - fixed))
        return [system, developer, tools, memory, max(0, self.after - fixed - memory), user_input]

    @property
    def after_is_derived(self) -> bool:
        """True if the client did not send the parts after the compaction, so that those shown are estimates."""
        return self._breakdown_after is None and self.after_parts is not None

    @property
    def _breakdown_after(self) -> Mapping[str, Any] | None:
        pruned = self.event(PrunedMessagesEvent)
        return None if pruned is None else pruned.breakdown_after

    @property
    def fates(self) -> dict[str, int]:
        pruned = self.event(PrunedMessagesEvent)
        fates = pruned.fates if pruned is not None else None
        return {str(name): to_count(count) for name, count in fates.items()} if fates else {}

    @property
    def is_exact(self) -> bool:
        """True if another program has compacted, and both prompts were seen as they were sent."""
        result = self.event(PrunedMessagesEvent)
        return result is not None and result.evidence == "exact"

    @property
    def pruned_count(self) -> int:
        """The messages that left the prompt. The ledger has the same number, if the client sent one."""
        pruned = self.event(PrunedMessagesEvent)
        if pruned is not None and (count := pruned.removed_count):
            return count
        decision, overflow = self.event(TriggerDecisionEvent), self.event(OverflowRecoveredEvent)
        return (decision and decision.pruned_count) or (overflow and overflow.removed_count) or 0

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
        return next(filter(None, (fallback_of(span.data) for span in reversed(self.errors))), "")

    @property
    def recovered_errors(self) -> list[str]:
        """The keys of errors after which the compaction used a fallback. They are not failures of the session."""
        return [span.key for span in self.errors if fallback_of(span.data)]

    @property
    def turn(self) -> int | None:
        events = (self.event(CheckEvent), self.event(TokenEstimateEvent), self.event(TriggerDecisionEvent))
        return next((event.turn for event in events if event and event.turn is not None), None)

    @property
    def step(self) -> int | None:
        events = (
            self.event(PrunedMessagesEvent),
            self.event(CheckEvent),
            self.event(ArchivalEvent),
            self.event(SummaryCreatedEvent),
        )
        return next((event.step for event in events if event and event.step is not None), None)


def _sizes(breakdown: Mapping[str, Any]) -> list[int]:
    return [to_count(breakdown.get(part)) for part in PROMPT_PARTS]
