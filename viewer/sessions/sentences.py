"""What happened, as a person would say it at night on the phone.

Pure: the same check gives the same sentence, on a page, in the API and in a live frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ingest.decoding.span_facts import facts_of
from viewer.sessions.checks import CALL, DECISION, OVERFLOW, RETENTION, Check, SpanRow, fraction, whole


def sentence(check: Check) -> str:
    """What was decided, with its numbers, as a person would say it at night on the phone."""
    if call := check.of(CALL):
        return f"The model was called: {_exchanged(call)}, as its provider counted."
    used = usage(check.before, check.window)
    if check.is_recovery:
        return _recovered(check)
    if not check.is_compaction:
        if check.margin is None:
            return f"Not compacted: {used}."
        return f"Not compacted: {used}, {abs(check.margin):,} below the trigger of {check.trigger_tokens:,}."
    if check.has_failed:
        error = check.errors[-1].data
        return f"Could not compact at {used}: {error.get('message') or error.get('error_type') or 'no reason given'}"
    result = f" Now {check.after:,}." if check.after is not None else ""
    if check.is_running:
        return f"Compacting: {used}…"
    if check.trigger == "manual":
        note = check.value("note", DECISION)
        return f"Compacted by hand at {used}{f' (“{note}”)' if note else ''}.{result}"
    if check.trigger == "overflow":
        return f"Compacted after the provider refused {used}.{result}"
    if check.trigger_tokens and check.window and check.before >= check.trigger_tokens:
        pct = check.trigger_tokens / check.window
        return f"Compacted: {used} reached the {percent(pct)} trigger.{result}"
    reason = check.value("reason", DECISION)
    return f"Compacted: {used}{f' ({reason})' if reason else ''}.{result}"


def _recovered(check: Check) -> str:
    """The provider counts for itself: what it refused may be more than was estimated."""
    asked = whole(check.value("requested_tokens", OVERFLOW))
    limit = whole(check.value("limit_tokens", OVERFLOW)) or check.window
    refused = usage(asked, limit) if asked else usage(check.before, check.window)
    if check.after is None:
        return f"The provider refused {refused}."
    return f"The provider refused {refused}: {_left_out(check.pruned_count)} left out. Now {check.after:,}."


def _exchanged(call: SpanRow) -> str:
    facts = facts_of(CALL, dict(call.data))
    sent, total = facts.context_tokens or 0, facts.tokens or 0
    return f"{sent:,} tokens in, {total - sent:,} out"


def _left_out(messages: int) -> str:
    if messages == 1:
        return "the oldest message was"
    return f"the {messages:,} oldest messages were" if messages else "the oldest messages were"


def aftermath(check: Check) -> str:
    """What a compaction left behind: facts that were lost, and a summary that had to be made twice."""
    parts = []
    by_kind = check.value("by_kind", RETENTION)
    counts = [count for count in by_kind.values() if isinstance(count, Mapping)] if isinstance(by_kind, Mapping) else []
    found, lost = (sum(whole(count.get(name)) for count in counts) for name in ("found", "lost"))
    if found:
        parts.append(f"{lost:,} of {found:,} key facts were lost." if lost else f"All {found:,} key facts were kept.")
    if check.errors and not check.has_failed:
        said = check.errors[-1].data
        why = said.get("message") or said.get("error_type") or "no reason given"
        pruned = check.fallback == "pruning-only"
        what = "No summary could be made" if pruned else "The summary failed at first and was made another way"
        parts.append(f"{what}: {why}.")
    return " ".join(parts)


def beside_messages(check: Check, before: int, after: int) -> str:
    """Why the messages alone, `before` and `after` tokens of them, are less than the whole prompt."""
    more, more_after = check.before - before, (check.after or 0) - after
    if check.after is None or more <= 0 or more_after < 0:
        return ""
    size = f"{more:,}" if more == more_after else f"{more:,} before and {more_after:,} after"
    whole_prompt = f"With them the prompt was {check.before:,} before and {check.after:,} after."
    return f"Not drawn: {size} tokens that every prompt holds beside its messages, such as tool schemas. {whole_prompt}"


def usage(tokens: int, window: int) -> str:
    return f"{tokens:,} of {window:,} tokens ({tokens / window:.1%})" if window else f"{tokens:,} tokens"


def percent(value: float) -> str:
    return f"{value:.1%}".replace(".0%", "%")


def _freed(data: Mapping[str, Any]) -> str:
    return f"{whole(data.get('tokens_before')):,} → {whole(data.get('tokens_after')):,} tokens"


def describe(span: SpanRow) -> str:
    """One line about a span for a stream of them."""
    data = span.data
    match span.kind:
        case "compact.token_estimate":
            return usage(whole(data.get("t_est")), whole(data.get("max_tokens")))
        case "compact.trigger_decision":
            verdict = "compact" if data.get("triggered") else "no compaction"
            return f"{verdict}: {data.get('reason') or usage(whole(data.get('t_est')), whole(data.get('max_tokens')))}"
        case "compact.check" if data.get("tokens_before") is not None:
            has_shrunk = data.get("triggered") and data.get("tokens_after") is not None
            return _freed(data) if has_shrunk else usage(whole(data["tokens_before"]), whole(data.get("max_tokens")))
        case "compact.summary_created":
            return f"{whole(data.get('input_messages'))} messages into {whole(data.get('summary_tokens')):,} tokens"
        case "compact.pruned_messages":
            return f"{whole(data.get('pruned_count'))} messages left the prompt, {_freed(data)}"
        case "compact.overflow_recovered":
            return f"{_left_out(whole(data.get('removed_count')))} left out, {_freed(data)}"
        case "compact.retention":
            return f"{percent(fraction(data.get('retention_pct')))} of key facts kept"
        case "generation" if span.tokens:
            return ": ".join(filter(None, (facts_of(CALL, dict(data)).model, _exchanged(span))))
        case "compact.error" | "compact.warning":
            then = f", then {data['fallback']}" if data.get("fallback") else ""
            return f"{data.get('message') or data.get('error_type') or data.get('code') or ''}{then}"
    return str(data.get("message") or data.get("error") or data.get("model") or "")[:300]


def story(checks: Iterable[Check]) -> str:
    """A session's memory in one breath: what was forgotten, how much, how well."""
    known = list(checks)
    compactions = [check for check in known if check.is_compaction]
    recovered = [check for check in known if check.is_recovery]
    done = [check for check in compactions if not check.has_failed and not check.is_running]
    failed = sum(check.has_failed for check in compactions)
    if known and all(check.is_call for check in known):
        return "No compaction was reported: only the model's calls are known."
    if not compactions and not recovered:
        return "Nothing has been forgotten: no compaction yet."
    parts = []
    if done:
        freed = sum(check.before - check.after for check in done if check.after is not None)
        gone = sum(check.pruned_count for check in done)
        taken = f"took {counted(gone, 'message')} out of the prompt and freed {freed:,} tokens"
        parts.append(f"{counted(len(done), 'compaction')} {taken}.")
    if failed:
        parts.append(f"{counted(failed, 'compaction')} failed.")
    pruned = sum(check.fallback == "pruning-only" for check in done)
    if pruned:
        parts.append(f"{often(pruned)} no summary could be made and older turns were only pruned.")
    retried = sum(bool(check.fallback) for check in done) - pruned
    if retried:
        parts.append(f"{often(retried)} a summary failed at first and was made another way.")
    if recovered:
        gone = sum(check.pruned_count for check in recovered)
        parts.append(f"{often(len(recovered))} the provider refused a prompt and {_left_out(gone)} left out.")
    kept = [check.retention for check in done if check.retention is not None]
    if kept:
        parts.append(f"Key facts kept: {percent(min(kept))} at worst." if min(kept) < 1 else "No key fact was lost.")
    return " ".join(parts)


def often(number: int) -> str:
    return "Once" if number == 1 else f"{number:,} times"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
