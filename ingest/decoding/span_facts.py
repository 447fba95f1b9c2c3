"""What a list of sessions wants to know of a span, read from its kind and its data.

Pure, and derivable from a stored row, so that aggregates can always be counted again from the spans themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

_INT_MAX = 2**31 - 1
_SESSION_KEYS = ("session_id", "session.id", "gen_ai.conversation.id")
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "llm.token_count.prompt", "gen_ai.usage.prompt_tokens")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "llm.token_count.completion", "gen_ai.usage.completion_tokens")
USAGE_KEYS = ("usage", *_INPUT_TOKENS, *_OUTPUT_TOKENS)
"""Where a call of the model says how many tokens it took."""


class Facts(msgspec.Struct, frozen=True, gc=False):
    """One span's part in its session's aggregates."""

    model: str = ""
    tokens: int | None = None  # what the row's token bar shows
    context_tokens: int | None = None  # how full the window was
    window_tokens: int | None = None
    trigger_tokens: int | None = None
    turn: int = 0
    is_turn: bool = False
    is_check: bool = False
    is_compaction: bool = False
    is_fallback: bool = False
    retention: float | None = None


NOTHING = Facts()
# The commonest kinds of which there is nothing to know.
FACTLESS_KINDS = frozenset(
    {"agent", "tool", "span", "custom", "handoff", "guardrail", "retrieval", "embedding", "task"}
)


def session_of(fields: dict[str, Any]) -> str | None:
    """The session that a span's data names, if it names one."""
    for key in _SESSION_KEYS:
        value = fields.get(key)
        if value is None:
            continue
        if isinstance(value, str) and value:
            return value
        if type(value) is int:
            return str(value)
    return None


def facts_of(kind: str, fields: dict[str, Any]) -> Facts:
    if kind == "generation":
        return _of_generation(fields)
    if kind.startswith("compact."):
        return _of_compaction(kind, fields.get)
    if kind == "turn":
        return Facts(is_turn=True, turn=_count(fields.get("turn")) or 0)
    return NOTHING


def _of_compaction(kind: str, get: Callable[[str], Any]) -> Facts:
    estimate = _first(get("t_est"), get("tokens_estimated"))
    before, after = _count(get("tokens_before")), _count(get("tokens_after"))
    is_estimate = kind == "compact.token_estimate"
    is_decision = kind == "compact.trigger_decision"
    is_count = is_estimate or is_decision
    return Facts(
        model=_text(get("model")) if is_count else "",
        tokens=_shown(kind, estimate, before, after, _count(get("summary_tokens"))),
        context_tokens=estimate if is_count else None,
        window_tokens=_first(get("max_tokens"), get("max")) if is_count else None,
        trigger_tokens=_count(get("trigger_tokens")) if is_decision else None,
        turn=_count(get("turn")) or 0,
        is_check=is_decision,
        is_compaction=kind == "compact.pruned_messages",
        is_fallback=kind == "compact.error" and bool(get("fallback")),
        retention=_share(get("retention_pct")) if kind == "compact.retention" else None,
    )


def _shown(kind: str, estimate: int | None, before: int | None, after: int | None, summary: int | None) -> int | None:
    if kind == "compact.summary_created":
        return summary
    if estimate is not None:
        return estimate
    return before if after is None else after


def _of_generation(fields: dict[str, Any]) -> Facts:
    get = fields.get
    usage = get("usage")
    if type(usage) is dict:
        used, made = usage.get("input_tokens"), usage.get("output_tokens")
        if type(used) is not int or not 0 <= used <= _INT_MAX:
            used = _first(used, usage.get("prompt_tokens"))
        if type(made) is not int or not 0 <= made <= _INT_MAX:
            made = _first(made, usage.get("completion_tokens"))
    else:
        used = _first(*map(get, _INPUT_TOKENS))
        made = _first(*map(get, _OUTPUT_TOKENS))
    model = get("gen_ai.request.model") or get("model") or get("llm.model_name") or get("gen_ai.response.model")
    total = None if used is None and made is None else min((used or 0) + (made or 0), _INT_MAX)
    return Facts(_text(model), total, used)


def _first(*values: Any) -> int | None:
    for value in values:
        if value is not None and (count := _count(value)) is not None:
            return count
    return None


def _count(value: Any) -> int | None:
    """A number of tokens or turns that fits its column, or nothing."""
    if type(value) is int and 0 <= value <= _INT_MAX:
        return value
    if isinstance(value, float) and 0 <= value <= _INT_MAX:
        return int(value)
    return None


def _share(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


def _text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""
