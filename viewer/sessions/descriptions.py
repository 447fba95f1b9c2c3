"""Sentences about spans, checks and sessions.

Pure: a check has the same sentence on a page, in the API and in a live frame.
"""

from __future__ import annotations

from collections.abc import Iterable

from compact.events import PRUNING_ONLY, OverflowRecoveredEvent, SummaryCreatedEvent, TriggerDecisionEvent
from compact.events.phrases import describe_removal

from viewer.kinds import GENERATION, PRUNED, describe_tokens, kind_of
from viewer.numbers import format_count, format_facts, format_percent, format_usage
from viewer.sessions.checks import Check
from viewer.sessions.spans import SpanRow


def describe_span(span: SpanRow) -> str:
    """One line about a span, for the tail and the inspector."""
    return kind_of(span.kind).describe(span.data)


def describe_check(check: Check) -> str:
    """The decision of a check and its result, with the numbers."""
    if call := check.span(GENERATION):
        return f"Model call: {describe_tokens(call.data)}, as counted by the provider."
    if check.is_recovery and check.span(PRUNED) is None:
        return _describe_recovery(check)
    used = format_usage(check.before, check.window)
    match check.outcome:
        case "not_needed" | "futile":
            return _describe_no_compaction(check)
        case "failed":
            return f"Compaction failed at {used}: {check.error_message}"
        case "running" if check.is_running:
            return f"Compacting: {used}…"
        case "running":
            return f"A compaction started{f' at {used}' if check.before else ''}. Its result wasn't reported."
    return f"{_describe_cause(check, used)}. {_describe_size_after(check)}".rstrip()


def _describe_size_after(check: Check) -> str:
    if check.after is not None:
        return f"Now {check.after:,}."
    summary = check.event(SummaryCreatedEvent)
    if summary is None or not summary.summary_tokens:
        return ""
    # Logs of agents have the summary, but not the system prompt, tools and memory files around it.
    return f"Summary only: {summary.summary_tokens:,} tokens. The next model call shows the size of the prompt."


def _describe_no_compaction(check: Check) -> str:
    used = format_usage(check.before, check.window)
    if check.margin is None:
        return f"Not compacted: {used}."
    side = "below" if check.margin > 0 else "above"
    size = f"Not compacted: {used}, {abs(check.margin):,} {side} the trigger of {check.trigger_tokens:,}."
    if check.is_paused:
        return f"{size} The last compactions freed almost nothing, so the next one waits for new messages."
    return f"{size} The prompt would not have become smaller." if check.is_futile else size


def _describe_cause(check: Check, used: str) -> str:
    decision = check.event(TriggerDecisionEvent)
    if check.trigger == "manual":
        note = decision and decision.note
        return f"Compacted manually at {used}" + (f" (“{note}”)" if note else "")
    if check.trigger == "overflow":
        return f"Compacted after the provider rejected {_describe_rejected(check.before, check.window)}"
    if check.trigger_tokens and check.window and check.before >= check.trigger_tokens:
        return f"Compacted: {used} reached the {format_percent(check.trigger_tokens / check.window)} trigger"
    reason = decision and decision.reason
    return f"Compacted at {used}" + (f": {reason}" if reason else "")


def _describe_rejected(tokens: int, window: int) -> str:
    return f"{tokens:,} tokens for a window of {window:,}" if window else f"{tokens:,} tokens"


def _describe_recovery(check: Check) -> str:
    # The provider's own count may differ from the estimate.
    overflow = check.event(OverflowRecoveredEvent)
    requested = overflow and overflow.requested_tokens
    limit = (overflow and overflow.limit_tokens) or check.window
    rejected = _describe_rejected(requested, limit) if requested else _describe_rejected(check.before, check.window)
    if check.after is None:
        return f"The provider rejected {rejected}."
    return f"The provider rejected {rejected}, so {describe_removal(check.pruned_count)}. Now {check.after:,}."


def describe_losses(check: Check) -> str:
    """The facts that a compaction kept, and the fallback that it needed."""
    sentences = [f"{format_facts(*check.facts)}."] if check.facts else []
    if check.errors and check.is_compaction:
        action = "only pruned older turns" if check.fallback == PRUNING_ONLY else "used a fallback"
        sentences.append(f"The summary failed and the compaction {action}: {check.error_message}.")
    return " ".join(sentences)


def _describe_none(checks: list[Check]) -> str:
    if checks and all(check.is_call for check in checks):
        return "No compactions reported. Only model calls were recorded."
    return " ".join(filter(None, ("No compactions yet.", _describe_futile(checks))))


def describe_session(checks: Iterable[Check], *, provider_count: int = 0) -> str:
    """The compactions of a session in a few sentences. `provider_count` of them happened on the side of a provider."""
    checks = list(checks)
    compactions = [check for check in checks if check.is_compaction]
    has_attempts = any(check.outcome in {"running", "failed"} for check in checks)
    recoveries = [check for check in checks if check.is_recovery]
    provider = f"The provider compacted {_times(provider_count)} on its own side." if provider_count else ""
    if not compactions and not has_attempts:
        return provider or _describe_none(checks)
    sentences = (
        _describe_completed(compactions),
        _describe_unreported(checks),
        _describe_failed(checks),
        _describe_futile(checks),
        _describe_fallbacks(compactions),
        _describe_recoveries(recoveries),
        _describe_retention(compactions),
        provider,
    )
    return " ".join(filter(None, sentences))


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _describe_completed(completed: list[Check]) -> str:
    if not completed:
        return ""
    compactions = format_count(len(completed), "compaction")
    messages = format_count(sum(check.pruned_count for check in completed), "message")
    removed = f"{compactions} removed {messages} from the prompt"
    measured = [check for check in completed if check.after is not None]
    if not measured:
        return f"{removed}. The prompt size afterward wasn't reported."
    freed = sum(check.freed_tokens for check in measured)
    added = sum((check.after or 0) - check.before for check in measured)
    if not freed and added > 0:
        return f"{removed} and added {added:,} tokens."
    # Compactions without a size may have freed more.
    least = "" if len(measured) == len(completed) else "at least "
    return f"{removed} and freed {least}{freed:,} tokens."


def _describe_unreported(checks: list[Check]) -> str:
    count = sum(check.outcome == "running" and not check.is_running for check in checks)
    if not count:
        return ""
    return (
        f"{format_count(count, 'compaction')} started, but {'its' if count == 1 else 'their'} result wasn't reported."
    )


def _describe_failed(checks: list[Check]) -> str:
    failed = sum(check.has_failed for check in checks)
    return f"{format_count(failed, 'compaction')} failed." if failed else ""


def _describe_futile(checks: list[Check]) -> str:
    futile = sum(check.is_futile for check in checks)
    return f"{format_count(futile, 'check')} reached the trigger, but there was too little to gain." if futile else ""


def _describe_fallbacks(completed: list[Check]) -> str:
    fallbacks = [check.fallback for check in completed if check.fallback]
    pruned = fallbacks.count(PRUNING_ONLY)
    counts = {"older turns were only pruned": pruned, "used a fallback": len(fallbacks) - pruned}
    return " ".join(f"{_failed_summaries(count)} and {result}." for result, count in counts.items() if count)


def _failed_summaries(count: int) -> str:
    return "1 summary failed" if count == 1 else f"{count:,} summaries failed"


def _describe_recoveries(recoveries: list[Check]) -> str:
    if not recoveries:
        return ""
    return f"The provider rejected {format_count(len(recoveries), 'prompt')} as too long."


def _describe_retention(completed: list[Check]) -> str:
    counts = [check.facts for check in completed if check.facts]
    if not counts:
        return ""
    return f"{format_facts(sum(facts.total for facts in counts), sum(facts.kept for facts in counts))}."
