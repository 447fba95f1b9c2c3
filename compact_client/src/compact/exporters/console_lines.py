"""One-line descriptions of events: a table with one entry per event class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from compact import events
from compact.events import Event, event_named

Properties = Mapping[str, Any]
Style = Literal["error", "warning", "triggered", "done", "dim"]


def describe(event: Mapping[str, Any]) -> str:
    """Return the most important properties of an event, in a few words."""
    properties = event.get("properties") or {}
    event_class = event_named(str(event.get("event", "")))
    return LINES[event_class](properties) if event_class else _list_scalars(properties)


def style_of(event: Mapping[str, Any]) -> Style:
    """Return the style of an event's name."""
    event_class = event_named(str(event.get("event", "")))
    if event.get("status") == "error" or event_class is events.ErrorEvent:
        return "error"
    if event_class is events.WarningEvent:
        return "warning"
    if (event.get("properties") or {}).get("triggered"):
        return "triggered"
    return "done" if event_class in _RESULTS else "dim"


def _check_line(properties: Properties) -> str:
    before, after = _count(properties.get("tokens_before")), _count(properties.get("tokens_after"))
    return f"turn {properties.get('turn')}: {before} → {after} tokens"


def _token_estimate_line(properties: Properties) -> str:
    usage = _percent(properties.get("usage_pct"))
    return f"{_count(properties.get('t_est'))} of {_count(properties.get('max_tokens'))} tokens ({usage})"


def _trigger_decision_line(properties: Properties) -> str:
    reason = properties.get("reason", "")
    if not properties.get("triggered"):
        return f"no: {reason}"
    kept = properties.get("kept")
    effect = f" (prune {_count(properties.get('pruned_count'))}, keep {_pairs(kept)})" if kept else ""
    return f"compact: {reason}{effect}"


def _quality_line(properties: Properties) -> str:
    turns = _count(properties.get("turns_since_compaction"))
    requests = _count(properties.get("rehydration_requests"))
    asked = ", the agent asked for lost context" if properties.get("agent_asked_for_context") else ""
    return f"{turns} turns after the compaction: {requests} rehydration requests{asked}"


def _check_started_line(properties: Properties) -> str:
    return f"{_count(properties.get('tokens_before'))} tokens, budget {_count(properties.get('budget_limit'))}"


def _policy_applied_line(properties: Properties) -> str:
    target, summary = _count(properties.get("target_tokens")), _count(properties.get("summary_tokens"))
    reductions = properties.get("reductions")
    suffix = f", reduced: {', '.join(map(str, reductions))}" if reductions else ""
    return f"target {target} tokens, summary up to {summary} tokens{suffix}"


def _archival_line(properties: Properties) -> str:
    place = properties.get("error") or properties.get("path") or properties.get("key") or properties.get("id")
    return f"{properties.get('state')} in {properties.get('storage_adapter')}: {place}"


def _proposal_generated_line(properties: Properties) -> str:
    reason = (properties.get("details") or {}).get("reason")
    return f"{properties.get('strategy')} would free {_count(properties.get('tokens_freed'))} tokens: {reason}"


def _record_line(properties: Properties) -> str:
    freed = f"{_count(properties.get('tokens_freed'))} tokens freed"
    span = properties.get("span") or {}
    return f"{freed} ({_count(span.get('message_count'))} messages)" if span else freed


def _provider_compaction_line(properties: Properties) -> str:
    note = properties.get("note")
    return f"{properties.get('provider')} applied {properties.get('kind')}" + (f": {note}" if note else "")


def _truncated_line(properties: Properties) -> str:
    before, after = _count(properties.get("tokens_before")), _count(properties.get("tokens_after"))
    return f"{before} → {after} tokens: {properties.get('reason')}"


def _pruned_messages_line(properties: Properties) -> str:
    before, after = _count(properties.get("tokens_before")), _count(properties.get("tokens_after"))
    layers = _pairs(properties.get("layers") or {})
    return f"{_count(properties.get('pruned_count'))} messages pruned, {before} → {after} tokens ({layers})"


def _completed_line(properties: Properties) -> str:
    before, after = _count(properties.get("tokens_before")), _count(properties.get("tokens_after"))
    return f"{before} → {after} tokens, {_count(properties.get('tokens_freed'))} freed"


def _breaker_open_line(properties: Properties) -> str:
    return f"skipped: {(properties.get('details') or {}).get('reason')}"


def _overflow_recovered_line(properties: Properties) -> str:
    before, after = _count(properties.get("tokens_before")), _count(properties.get("tokens_after"))
    removed = _count(properties.get("removed_count"))
    return f"attempt {properties.get('attempt')}: {removed} messages removed, {before} → {after} tokens"


def _retention_line(properties: Properties) -> str:
    kept, total = _count(properties.get("facts_kept")), _count(properties.get("facts_total"))
    parts = [
        f"{properties[f'{name}_kept']} of {properties[f'{name}_total']} {name.replace('_', ' ')}"
        for name in ("goals", "decisions", "open_items", "files")
        if properties.get(f"{name}_total")
    ]
    details = f" ({', '.join(parts)})" if parts else ""
    return f"{kept} of {total} facts kept{details}"


def _summary_created_line(properties: Properties) -> str:
    ratio = properties.get("compression_ratio")
    suffix = f", {ratio:.1f} to 1" if isinstance(ratio, (int, float)) else ""
    messages, tokens = _count(properties.get("input_messages")), _count(properties.get("summary_tokens"))
    return f"{properties.get('strategy')}: {messages} messages into {tokens} tokens{suffix}"


def _summary_discarded_line(properties: Properties) -> str:
    messages, tokens = _count(properties.get("input_messages")), _count(properties.get("summary_tokens"))
    return f"{messages} messages into {tokens} tokens, not used: {properties.get('reason')}"


def _rehydrated_line(properties: Properties) -> str:
    details = properties.get("details") or {}
    suffix = " (truncated)" if details.get("truncated") else ""
    return f"{details.get('artifact_id')}: {_count(properties.get('tokens'))} tokens{suffix}"


def _rehydration_blocked_line(properties: Properties) -> str:
    details = properties.get("details") or {}
    return f"{details.get('artifact_id')}: {details.get('reason')}"


def _recall_line(properties: Properties) -> str:
    count, outside = _count(properties.get("passage_count")), _count(properties.get("outside_prompt_count"))
    return f"{count} passages found, {outside} of them outside the prompt, {_count(properties.get('tokens'))} tokens"


def _error_line(properties: Properties) -> str:
    return f"{properties.get('error_type')}: {properties.get('message')} (fallback: {properties.get('fallback')})"


def _over_budget_line(properties: Properties) -> str:
    tokens, budget = _count(properties.get("tokens")), _count(properties.get("budget_tokens"))
    excess = _count(properties.get("excess_tokens"))
    return f"{tokens} tokens, {excess} over the budget of {budget}: {properties.get('reason')}"


def _warning_line(properties: Properties) -> str:
    return f"{properties.get('severity')}: {properties.get('message')}"


LINES: Mapping[type[Event], Callable[[Properties], str]] = {
    events.CheckEvent: _check_line,
    events.TokenEstimateEvent: _token_estimate_line,
    events.TriggerDecisionEvent: _trigger_decision_line,
    events.QualityEvent: _quality_line,
    events.CheckStartedEvent: _check_started_line,
    events.PolicyAppliedEvent: _policy_applied_line,
    events.ArchivalEvent: _archival_line,
    events.ProposalGeneratedEvent: _proposal_generated_line,
    events.ExternalizedEvent: _record_line,
    events.SummarizedEvent: _record_line,
    events.ClearedEvent: _record_line,
    events.DroppedEvent: _record_line,
    events.TruncatedEvent: _truncated_line,
    events.ProviderCompactionEvent: _provider_compaction_line,
    events.PrunedMessagesEvent: _pruned_messages_line,
    events.CompletedEvent: _completed_line,
    events.BreakerOpenEvent: _breaker_open_line,
    events.OverflowRecoveredEvent: _overflow_recovered_line,
    events.RetentionEvent: _retention_line,
    events.SummaryCreatedEvent: _summary_created_line,
    events.SummaryDiscardedEvent: _summary_discarded_line,
    events.RehydratedEvent: _rehydrated_line,
    events.RehydrationBlockedEvent: _rehydration_blocked_line,
    events.RecallEvent: _recall_line,
    events.ErrorEvent: _error_line,
    events.OverBudgetEvent: _over_budget_line,
    events.WarningEvent: _warning_line,
}

_RESULTS = frozenset(
    {events.SummaryCreatedEvent, events.PrunedMessagesEvent, events.ArchivalEvent, events.OverflowRecoveredEvent}
)


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "?" if value is None else str(value)


def _percent(value: Any) -> str:
    return f"{value:.1%}" if isinstance(value, (int, float)) else "?"


def _pairs(values: Properties) -> str:
    return ", ".join(f"{key} {_count(value)}" for key, value in values.items())


def _list_scalars(properties: Properties) -> str:
    return _pairs({key: value for key, value in properties.items() if isinstance(value, (str, int, float, bool))})
