"""One sentence per event. The console exporter, the tail, the inspector and MCP show the same ones.

A sentence tolerates properties that the sender left out or may not show, because events come from any version of any
client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compact.events.base import Event
from compact.events.check_events import CheckEvent, QualityEvent, TokenEstimateEvent, TriggerDecisionEvent
from compact.events.compaction_events import (
    ArchivalEvent,
    BreakerOpenEvent,
    CheckStartedEvent,
    ClearedEvent,
    CompletedEvent,
    DroppedEvent,
    ExternalizedEvent,
    OverflowRecoveredEvent,
    PolicyAppliedEvent,
    ProposalGeneratedEvent,
    ProviderCompactionEvent,
    PrunedMessagesEvent,
    RecordEvent,
    SummarizedEvent,
    TruncatedEvent,
)
from compact.events.phrases import (
    describe_removal,
    format_count,
    format_facts,
    format_number,
    format_percent,
    format_reduction,
    format_usage,
)
from compact.events.problem_events import ErrorEvent, OverBudgetEvent, WarningEvent
from compact.events.recall_events import RecallEvent
from compact.events.rehydration_events import RehydratedEvent, RehydrationBlockedEvent
from compact.events.summary_events import RetentionEvent, SummaryCreatedEvent, SummaryDiscardedEvent

REMAINING_FATES = frozenset({"pinned", "kept", "truncated"})
"""Fates of messages that are still in the prompt. The others are summarized, cleared, externalized and dropped."""


def line(event: Event) -> str:
    """Return the sentence of an event, without a final period. It is empty if nothing in it is known."""
    return SENTENCES[type(event)](event)


def removed_count(event: PrunedMessagesEvent) -> int:
    """Return the messages that left the prompt, by the fates of the ledger. Older clients sent only a count."""
    if event.fates:
        return sum(count for fate, count in event.fates.items() if fate not in REMAINING_FATES and _is_count(count))
    return event.pruned_count or 0


def _check_line(event: CheckEvent) -> str:
    if event.tokens_before is None:
        return event.model or ""
    if event.triggered is not False and event.tokens_after is not None:
        return format_reduction(event.tokens_before, event.tokens_after)
    return format_usage(event.tokens_before, event.max_tokens or 0)


def _token_estimate_line(event: TokenEstimateEvent) -> str:
    return "" if event.t_est is None else format_usage(event.t_est, event.max_tokens or 0)


def _trigger_decision_line(event: TriggerDecisionEvent) -> str:
    verdict = "Compact" if event.triggered else "No compaction"
    used = "" if event.t_est is None else format_usage(event.t_est, event.max_tokens or 0)
    if used and event.trigger_tokens:
        margin = event.trigger_tokens - event.t_est
        # Other rules than the trigger decide against the margin. Their reason says why.
        if bool(event.triggered) == (margin <= 0):
            side = "above" if event.triggered else "below"
            return f"{verdict}: {used}, {abs(margin):,} {side} the trigger of {event.trigger_tokens:,}"
    return _join(verdict, event.reason or used)


def _quality_line(event: QualityEvent) -> str:
    requests = format_count(event.rehydration_requests or 0, "rehydration request")
    asked = ", the agent asked for lost context" if event.agent_asked_for_context else ""
    return f"{format_count(event.turns_since_compaction or 0, 'turn')} after the compaction: {requests}{asked}"


def _check_started_line(event: CheckStartedEvent) -> str:
    budget = "" if event.budget_limit is None else f", the budget is {event.budget_limit:,}"
    return f"A compaction of {format_number(event.tokens_before)} tokens started{budget}"


def _policy_applied_line(event: PolicyAppliedEvent) -> str:
    limits = f"Target {format_number(event.target_tokens)} tokens, summary up to {format_number(event.summary_tokens)}"
    return f"{limits}, reduced: {', '.join(map(str, event.reductions))}" if event.reductions else limits


def _archival_line(event: ArchivalEvent) -> str:
    state = event.state or "stored"
    preposition = "in" if state == "stored" else "for"
    adapter = f" {preposition} {event.storage_adapter}" if event.storage_adapter else ""
    return _join(f"Transcript {state}{adapter}", event.error or event.path or event.key)


def _proposal_generated_line(event: ProposalGeneratedEvent) -> str:
    return _join(
        f"{event.strategy or 'A strategy'} would free {format_number(event.tokens_freed)} tokens",
        _detail(event.details, "reason"),
    )


def _record_line(event: RecordEvent) -> str:
    count = _detail(event.span, "message_count")
    messages = f" from {format_count(count, 'message')}" if _is_count(count) else ""
    return f"{format_number(event.tokens_freed)} tokens freed{messages}"


def _truncated_line(event: TruncatedEvent) -> str:
    return _join(format_reduction(event.tokens_before, event.tokens_after), event.reason)


def _pruned_messages_line(event: PrunedMessagesEvent) -> str:
    removed = format_count(removed_count(event), "message")
    return f"{removed} removed, {format_reduction(event.tokens_before, event.tokens_after)}"


def _provider_compaction_line(event: ProviderCompactionEvent) -> str:
    return _join(f"{event.provider or 'The provider'} applied {event.kind or 'a compaction'}", event.note)


def _completed_line(event: CompletedEvent) -> str:
    if _detail(event.details, "changed") is False:
        return f"Unchanged at {format_number(event.tokens_before)} tokens"
    freed = "" if event.tokens_freed is None else f", {event.tokens_freed:,} freed"
    return f"{format_reduction(event.tokens_before, event.tokens_after)}{freed}"


def _breaker_open_line(event: BreakerOpenEvent) -> str:
    return _join("Skipped", _detail(event.details, "reason"))


def _overflow_recovered_line(event: OverflowRecoveredEvent) -> str:
    removal = describe_removal(event.removed_count or 0)
    return f"{removal[0].upper()}{removal[1:]}, {format_reduction(event.tokens_before, event.tokens_after)}"


def _retention_line(event: RetentionEvent) -> str:
    if event.facts_total is not None and event.facts_kept is not None:
        return format_facts(event.facts_total, event.facts_kept)
    share = event.weighted_retention
    return "" if share is None else f"Weighted retention {format_percent(share)}"


def _summary_created_line(event: SummaryCreatedEvent) -> str:
    messages = format_count(event.input_messages or 0, "message")
    # The ledger counts the previous summary as one more message.
    previous = " and the previous summary" if (event.version or 0) > 1 else ""
    return f"{messages}{previous} summarized in {format_number(event.summary_tokens)} tokens"


def _summary_discarded_line(event: SummaryDiscardedEvent) -> str:
    return _join(f"A summary of {format_count(event.summary_tokens or 0, 'token')} was not used", event.reason)


def _rehydrated_line(event: RehydratedEvent) -> str:
    suffix = " (truncated)" if _detail(event.details, "truncated") is True else ""
    return f"{_detail(event.details, 'artifact_id') or 'Content'}: {format_number(event.tokens)} tokens{suffix}"


def _rehydration_blocked_line(event: RehydrationBlockedEvent) -> str:
    return _join(str(_detail(event.details, "artifact_id") or "Content"), _detail(event.details, "reason"))


def _recall_line(event: RecallEvent) -> str:
    if not event.passage_count:
        return "Nothing found"
    passages = format_count(event.passage_count, "passage")
    return f"{passages} found, {event.outside_prompt_count or 0:,} outside the prompt"


def _error_line(event: ErrorEvent) -> str:
    text = _join(event.error_type, event.message)
    return f"{text or 'Error'} (fallback: {event.fallback})" if event.fallback else text


def _over_budget_line(event: OverBudgetEvent) -> str:
    excess = f"{format_number(event.excess_tokens)} over the budget of {format_number(event.budget_tokens)}"
    return _join(f"{format_number(event.tokens)} tokens, {excess}", event.reason)


def _warning_line(event: WarningEvent) -> str:
    return _join(event.code, event.message)


def _join(start: str | None, end: Any) -> str:
    return ": ".join(str(part) for part in (start, end) if part)


def _detail(details: Any, name: str) -> Any:
    return details.get(name) if isinstance(details, Mapping) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


SENTENCES: Mapping[type[Event], Callable[[Any], str]] = {
    CheckEvent: _check_line,
    TokenEstimateEvent: _token_estimate_line,
    TriggerDecisionEvent: _trigger_decision_line,
    QualityEvent: _quality_line,
    CheckStartedEvent: _check_started_line,
    PolicyAppliedEvent: _policy_applied_line,
    ArchivalEvent: _archival_line,
    ProposalGeneratedEvent: _proposal_generated_line,
    ExternalizedEvent: _record_line,
    SummarizedEvent: _record_line,
    ClearedEvent: _record_line,
    DroppedEvent: _record_line,
    TruncatedEvent: _truncated_line,
    PrunedMessagesEvent: _pruned_messages_line,
    ProviderCompactionEvent: _provider_compaction_line,
    CompletedEvent: _completed_line,
    BreakerOpenEvent: _breaker_open_line,
    OverflowRecoveredEvent: _overflow_recovered_line,
    SummaryCreatedEvent: _summary_created_line,
    SummaryDiscardedEvent: _summary_discarded_line,
    RetentionEvent: _retention_line,
    RehydratedEvent: _rehydrated_line,
    RehydrationBlockedEvent: _rehydration_blocked_line,
    RecallEvent: _recall_line,
    ErrorEvent: _error_line,
    OverBudgetEvent: _over_budget_line,
    WarningEvent: _warning_line,
}
"""The sentence of each event class."""
