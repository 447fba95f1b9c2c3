"""Statistics of a span for session lists: model, tokens, turns, compactions.

Pure. They depend only on a span's kind and data, so that a session's aggregates can be recomputed from stored rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from compact.events import (
    EVENT_PREFIX,
    ErrorEvent,
    OverflowRecoveredEvent,
    RetentionEvent,
    SummaryCreatedEvent,
    SummaryDiscardedEvent,
    TokenEstimateEvent,
    TriggerDecisionEvent,
)
from compact.events.reading import Report, fallback_of, freed_tokens, report_of, upgrade

from ingest.decoding.facts import FactCount, count_facts, weighted_share
from ingest.decoding.token_usage import Usage, call_usage

_INT_MAX = 2**31 - 1
HIDDEN_MODEL = "[hidden]"
MODEL_PATTERN = r"^[A-Za-z0-9_@][A-Za-z0-9_.:/@+&()-]*( [A-Za-z0-9_.:/@+&()-]+){0,3}$"
_MODEL = re.compile(MODEL_PATTERN)
_MAX_MODEL_CHARS = 200
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "llm.token_count.prompt", "gen_ai.usage.prompt_tokens")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "llm.token_count.completion", "gen_ai.usage.completion_tokens")
USAGE_KEYS = ("usage", *_INPUT_TOKENS, *_OUTPUT_TOKENS)
"""Keys under which a model call reports its token usage."""
ASIDE = "is_aside"
"""The key that marks a model call beside the conversation."""


class EventStats(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The part of `Stats` that only turns and compaction events have."""

    window_tokens: int | None = None
    trigger_tokens: int | None = None
    turn: int = 0
    is_turn: bool = False
    is_check: bool = False
    is_compaction: bool = False
    is_shared_report: bool = False  # other events may report the same compaction
    is_fallback: bool = False
    facts_total: int = 0
    facts_kept: int = 0
    retention: float | None = None  # share of facts kept, from 0 to 1
    is_overflow: bool = False
    freed_tokens: int = 0
    cache_lost_tokens: int = 0


NO_EVENT = EventStats()


class Stats(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Contribution of one span to its session's aggregates."""

    model: str = ""
    tokens: int | None = None  # shown in the token bar of the span's row
    context_tokens: int | None = None  # size of the prompt
    usage: Usage | None = None  # billed tokens
    event: EventStats = NO_EVENT


NO_STATS = Stats()
# The most common kinds that contribute nothing.
KINDS_WITHOUT_STATS = frozenset(
    {"agent", "tool", "span", "custom", "handoff", "guardrail", "retrieval", "embedding", "task"}
)

# A summary that was not used costs as much as one that was.
SUMMARY_KINDS = frozenset({SummaryCreatedEvent.name, SummaryDiscardedEvent.name})
_NO_FACTS = FactCount(0, 0)
_NO_REPORT, _SHARED_REPORT = Report.NONE, Report.SHARED
_ESTIMATE, _DECISION = TokenEstimateEvent.name, TriggerDecisionEvent.name
_RETENTION, _ERROR, _OVERFLOW = RetentionEvent.name, ErrorEvent.name, OverflowRecoveredEvent.name


def stats_of(kind: str, data: dict[str, Any]) -> Stats:
    """Return the statistics of a span."""
    if kind == "generation":
        return _generation_stats(data)
    if kind.startswith(EVENT_PREFIX):
        return _compaction_stats(kind, data)
    if kind == "turn":
        return Stats(event=EventStats(is_turn=True, turn=_count(data.get("turn")) or 0))
    return NO_STATS


def _facts(data: dict[str, Any]) -> tuple[FactCount, float | None]:
    """Return the counts and the weighted share of the facts that a summary kept."""
    return count_facts(data) or _NO_FACTS, _retention(data)


def _compaction_stats(kind: str, data: dict[str, Any]) -> Stats:
    get = upgrade(kind, data).get
    estimate = _count(get("t_est"))
    before, after = _count(get("tokens_before")), _count(get("tokens_after"))
    is_decision = kind == _DECISION
    has_count = is_decision or kind == _ESTIMATE
    report = report_of(kind, data)
    is_compaction = report is not _NO_REPORT
    facts, retention = _facts(data) if kind == _RETENTION else (_NO_FACTS, None)
    event = EventStats(
        window_tokens=_count(get("max_tokens")) if has_count else None,
        trigger_tokens=_count(get("trigger_tokens")) if is_decision else None,
        turn=_count(get("turn")) or 0,
        is_check=is_decision,
        is_compaction=is_compaction,
        is_shared_report=report is _SHARED_REPORT,
        is_fallback=kind == _ERROR and bool(fallback_of(data)),
        facts_total=facts.total,
        facts_kept=facts.kept,
        retention=retention,
        is_overflow=kind == _OVERFLOW,
        freed_tokens=freed_tokens(before, after) if is_compaction else 0,
        cache_lost_tokens=_cache_lost(get("cache")),
    )
    return Stats(
        model=_text(get("model")) if has_count else "",
        tokens=_row_tokens(kind, estimate, before, after, _count(get("summary_tokens"))),
        context_tokens=estimate if has_count else None,
        usage=_summary_usage(get) if kind in SUMMARY_KINDS else None,
        event=event,
    )


def _cache_lost(cache: Any) -> int:
    """Return the cached tokens that a compaction invalidated."""
    return (_count(cache.get("invalidated_tokens")) or 0) if isinstance(cache, dict) else 0


def _summary_usage(get: Callable[[str], Any]) -> Usage | None:
    """Return the usage of the summarizer's call. A summarizer without a model costs nothing."""
    model = _text(get("model"))
    if not model:
        return None
    input_tokens, output_tokens = _count(get("input_tokens")) or 0, _count(get("summary_tokens")) or 0
    return Usage(model=model, input=input_tokens, output=output_tokens, is_summary=True)


def _retention(data: dict[str, Any]) -> float | None:
    """Return the share of facts kept. A client that does not count facts has only its own share."""
    facts = count_facts(data)
    if facts is None:
        return weighted_share(data)
    return facts.share if facts.total else None


def _row_tokens(
    kind: str, estimate: int | None, before: int | None, after: int | None, summary: int | None
) -> int | None:
    if kind in SUMMARY_KINDS:
        return summary
    if estimate is not None:
        return estimate
    return before if after is None else after


def _add_counts(first: int | None, second: int | None) -> int | None:
    """Return the sum of two counts, or None if both are unknown."""
    return min((first or 0) + (second or 0), _INT_MAX) if first is not None or second is not None else None


def _generation_stats(data: dict[str, Any]) -> Stats:
    get = data.get
    usage = get("usage")
    if type(usage) is dict:
        input_tokens, output_tokens = usage.get("input_tokens"), usage.get("output_tokens")
        if type(input_tokens) is not int or not 0 <= input_tokens <= _INT_MAX:
            input_tokens = _first_count(input_tokens, usage.get("prompt_tokens"))
        if type(output_tokens) is not int or not 0 <= output_tokens <= _INT_MAX:
            output_tokens = _first_count(output_tokens, usage.get("completion_tokens"))
    else:
        input_tokens = _find_count(get, _INPUT_TOKENS)
        output_tokens = _find_count(get, _OUTPUT_TOKENS)
    model = get("gen_ai.request.model") or get("model") or get("llm.model_name") or get("gen_ai.response.model")
    total = _add_counts(input_tokens, output_tokens)
    name = _text(model)
    billed = call_usage(name, data, input_tokens, output_tokens)
    if get(ASIDE):
        # A title or a summary costs tokens, but it is not the prompt or the model of the conversation.
        return Stats("", total, None, billed)
    return Stats(name, total, input_tokens, billed)


def _first_count(*values: Any) -> int | None:
    for value in values:
        if value is not None and (count := _count(value)) is not None:
            return count
    return None


def _find_count(get: Callable[[str], Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        if (value := get(key)) is not None and (count := _count(value)) is not None:
            return count
    return None


def _count(value: Any) -> int | None:
    """Return a number of tokens or turns if it fits into its column."""
    if type(value) is int and 0 <= value <= _INT_MAX:
        return value
    if isinstance(value, float) and 0 <= value <= _INT_MAX:
        return int(value)
    return None


@lru_cache(maxsize=4096)
def _model_name(value: str) -> str:
    return value if _MODEL.fullmatch(value) else HIDDEN_MODEL


def _text(value: Any) -> str:
    """Return the name of a model. The list of sessions shows it to everyone, so other text does not get through."""
    if not isinstance(value, str) or not value:
        return ""
    return _model_name(value) if len(value) <= _MAX_MODEL_CHARS else HIDDEN_MODEL
