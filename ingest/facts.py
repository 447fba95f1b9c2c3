"""What a list of sessions wants to know of a span, read from its kind and its data.

Pure, and derivable from a stored row, so that aggregates can always be counted again from the spans themselves.
"""

from __future__ import annotations

from typing import Any

import msgspec

_INT_MAX = 2**31 - 1


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


class _Picked(msgspec.Struct):
    """The few keys of a span's data that are read; the rest is skipped, not built."""

    session_id: Any = None
    session: Any = msgspec.field(default=None, name="session.id")
    conversation: Any = msgspec.field(default=None, name="gen_ai.conversation.id")
    model: Any = None
    request_model: Any = msgspec.field(default=None, name="gen_ai.request.model")
    response_model: Any = msgspec.field(default=None, name="gen_ai.response.model")
    llm_model: Any = msgspec.field(default=None, name="llm.model_name")
    usage: Any = None
    input_tokens: Any = msgspec.field(default=None, name="gen_ai.usage.input_tokens")
    output_tokens: Any = msgspec.field(default=None, name="gen_ai.usage.output_tokens")
    prompt_tokens: Any = msgspec.field(default=None, name="llm.token_count.prompt")
    completion_tokens: Any = msgspec.field(default=None, name="llm.token_count.completion")
    old_input_tokens: Any = msgspec.field(default=None, name="gen_ai.usage.prompt_tokens")
    old_output_tokens: Any = msgspec.field(default=None, name="gen_ai.usage.completion_tokens")
    t_est: Any = None
    tokens_estimated: Any = None
    max_tokens: Any = None
    max: Any = None
    trigger_tokens: Any = None
    tokens_before: Any = None
    tokens_after: Any = None
    summary_tokens: Any = None
    triggered: Any = None
    turn: Any = None
    fallback: Any = None
    retention_pct: Any = None


_pick = msgspec.json.Decoder(_Picked).decode
_NONE = _Picked()


def pick(data: bytes) -> _Picked:
    try:
        return _pick(data)
    except msgspec.MsgspecError:
        # Not an object, or a number no float can hold: stored as it is, and no part of any sum.
        return _NONE


def session_of(picked: _Picked) -> str | None:
    """The session that data names, if it names one."""
    for value in (picked.session_id, picked.session, picked.conversation):
        if value is None:
            continue
        if isinstance(value, str) and value:
            return value
        if type(value) is int:
            return str(value)
    return None


def facts_of(kind: str, picked: _Picked) -> Facts:
    if kind.startswith("compact."):
        return _of_compaction(kind, picked)
    if kind == "generation":
        return _of_generation(picked)
    if kind == "turn":
        return Facts(is_turn=True, turn=_count(picked.turn) or 0)
    return NOTHING


def _of_compaction(kind: str, picked: _Picked) -> Facts:
    estimate = _first(picked.t_est, picked.tokens_estimated)
    before, after = _count(picked.tokens_before), _count(picked.tokens_after)
    is_estimate = kind == "compact.token_estimate"
    is_decision = kind == "compact.trigger_decision"
    return Facts(
        model=_text(picked.model) if is_estimate else "",
        tokens=_shown(kind, estimate, before, after, _count(picked.summary_tokens)),
        context_tokens=estimate if is_estimate or is_decision else None,
        window_tokens=_first(picked.max_tokens, picked.max) if is_estimate or is_decision else None,
        trigger_tokens=_count(picked.trigger_tokens) if is_decision else None,
        turn=_count(picked.turn) or 0,
        is_check=is_decision,
        is_compaction=kind == "compact.pruned_messages",
        is_fallback=kind == "compact.error" and bool(picked.fallback),
        retention=_share(picked.retention_pct) if kind == "compact.retention" else None,
    )


def _shown(kind: str, estimate: int | None, before: int | None, after: int | None, summary: int | None) -> int | None:
    if kind == "compact.summary_created":
        return summary
    if estimate is not None:
        return estimate
    return before if after is None else after


def _of_generation(picked: _Picked) -> Facts:
    usage = picked.usage if isinstance(picked.usage, dict) else {}
    used = _first(
        picked.input_tokens,
        picked.prompt_tokens,
        picked.old_input_tokens,
        usage.get("input_tokens"),
        usage.get("prompt_tokens"),
    )
    made = _first(
        picked.output_tokens,
        picked.completion_tokens,
        picked.old_output_tokens,
        usage.get("output_tokens"),
        usage.get("completion_tokens"),
    )
    model = _text(picked.request_model or picked.model or picked.llm_model or picked.response_model)
    total = None if used is None and made is None else min((used or 0) + (made or 0), _INT_MAX)
    return Facts(model=model, tokens=total, context_tokens=used)


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
