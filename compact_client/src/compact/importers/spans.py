"""A conversation as spans: a session, its model calls and tools, what each request weighed, real compactions.

Pure, and the same ids every time: importing a log again changes nothing, importing a longer one adds what is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from compact.importers.conversation import Conversation, Moment

_DEFAULT_WINDOW = 200_000


def spans_of(
    conversation: Conversation, *, session_id: str, window_tokens: int | None = None
) -> Iterator[dict[str, Any]]:
    """Events for `POST /ingest`, in order; only what the log tells."""
    window = window_tokens or conversation.window_tokens or _DEFAULT_WINDOW
    trace_id = _id(session_id, "trace", 32)
    times = [at for moment in conversation.moments for at in (moment.started_at, moment.ended_at) if at]
    first, last = min(times, default=None), max(times, default=None)
    name = f"{conversation.source} session"
    yield {
        "type": "trace", "trace_id": trace_id, "name": name, "group_id": session_id,
        "started_at": first, "ended_at": last, "metadata": {"imported_from": conversation.source},
    }  # fmt: skip
    root = _id(session_id, "root", 16)
    base = {"type": "span", "trace_id": trace_id, "session_id": session_id}
    yield {
        **base, "span_id": root, "kind": "agent", "name": conversation.source, "started_at": first, "ended_at": last,
        "status": "ok", "data": {"model": conversation.model, "messages": len(conversation.items)},
    }  # fmt: skip
    turn = step = 0
    for number, moment in enumerate(conversation.moments):
        common = {**base, "parent_id": root, "started_at": moment.started_at, "ended_at": moment.ended_at}
        if moment.kind == "generation":
            turn += 1
            if moment.usage.get("input_tokens"):
                yield from _weight(common, session_id, number, moment, turn, window)
        if moment.kind == "compaction":
            step += 1
            yield from _compaction(common, session_id, number, moment, step)
            continue
        data = {**moment.data, **({"model": moment.model} if moment.model else {})}
        if moment.usage:
            data["usage"] = dict(moment.usage)
        yield {
            **common,
            "span_id": _id(session_id, f"{number}", 16),
            "kind": moment.kind if moment.kind != "user" else "custom",
            "name": moment.name,
            "status": "error" if moment.is_error else "ok",
            "data": data,
            "payload": dict(moment.payload),
        }


def _weight(
    common: dict[str, Any], session_id: str, number: int, moment: Moment, turn: int, window: int
) -> Iterator[dict[str, Any]]:
    tokens = moment.usage["input_tokens"]
    properties = {
        "model": moment.model, "t_est": tokens, "max_tokens": window, "usage_pct": round(tokens / window, 6),
        "turn": turn, "estimator": "provider", "source": "provider", "breakdown": {"history": tokens},
    }  # fmt: skip
    yield {
        **common,
        "ended_at": common["started_at"],
        "span_id": _id(session_id, f"{number} estimate", 16),
        "kind": "compact.token_estimate",
        "name": "compact.token_estimate",
        "status": "ok",
        "properties": properties,
    }


def _compaction(
    common: dict[str, Any], session_id: str, number: int, moment: Moment, step: int
) -> Iterator[dict[str, Any]]:
    before = moment.data.get("tokens_before")
    decision = {
        "triggered": True,
        "reason": moment.name,
        "rule": moment.data.get("trigger") or "agent",
        "t_est": before,
    }
    summary = {"strategy": "agent", "step": step, "version": step}
    for name, properties, payload in (
        ("compact.trigger_decision", decision, None),
        ("compact.summary_created", summary, dict(moment.payload) or None),
        ("compact.pruned_messages", {"step": step, "tokens_before": before}, None),
    ):
        event = {
            **common,
            "span_id": _id(session_id, f"{number} {name}", 16),
            "kind": name,
            "name": name,
            "status": "ok",
        }
        event["properties"] = {key: value for key, value in properties.items() if value is not None}
        if payload:
            event["payload"] = payload
        yield event


def _id(session_id: str, what: str, digits: int) -> str:
    return hashlib.sha256(f"{session_id}\n{what}".encode()).hexdigest()[:digits]
