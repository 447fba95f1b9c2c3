"""Checks as clients of all versions report them, and the compactions that each counts as."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]
DOCUMENT_000 = {
    "model": "gpt-5",
    "t_est": 112,
    "max": 128,
    "policy": {"trigger_pct": 0.85, "buffer": 5},
    "pruned_count": 47,
}
DECISION = {"triggered": True, "reason": "over", "rule": "trigger_pct", "t_est": 112, "max_tokens": 128}
RESULT = {"tokens_before": 112, "tokens_after": 40, "pruned_count": 47}
FATES = {**RESULT, "fates": {"summarized": 47}}
RECOVERY = {"removed_count": 4, "tokens_before": 112, "tokens_after": 40}
CHECK = {"trigger": "preflight", "triggered": True, "tokens_before": 112, "max_tokens": 128}

SESSIONS: dict[str, tuple[int, list[tuple[str, dict[str, Any]]]]] = {
    "failed": (0, [("check", CHECK), ("trigger_decision", DECISION), ("error", {"error_type": "X"})]),
    "document 000 with pruning": (1, [("trigger_decision", DOCUMENT_000), ("pruned_messages", RESULT)]),
    "document 000 alone": (1, [("trigger_decision", DOCUMENT_000)]),
    "older overflow": (1, [("overflow_recovered", RECOVERY), ("pruned_messages", RESULT)]),
    "older overflow alone": (1, [("check", {**CHECK, "trigger": "overflow"}), ("overflow_recovered", RECOVERY)]),
    "summary only": (0, [("summary_created", {"summary_tokens": 9, "input_messages": 4})]),
    "running": (0, [("check", {**CHECK, "is_open": True}), ("trigger_decision", DECISION)]),
    "futile": (
        0,
        [("check", CHECK), ("trigger_decision", DECISION), ("completed", {"details": {"changed": False}})],
    ),
    "paused": (0, [("check", CHECK), ("trigger_decision", DECISION), ("breaker_open", {})]),
    "ordinary": (1, [("check", CHECK), ("trigger_decision", DECISION), ("pruned_messages", FATES)]),
    "ordinary without a check": (1, [("trigger_decision", DECISION), ("pruned_messages", RESULT)]),
    "overflow of today": (
        1,
        [
            ("check", {**CHECK, "trigger": "overflow"}),
            ("trigger_decision", DECISION),
            ("pruned_messages", FATES),
            ("overflow_recovered", {**RECOVERY, "window_tokens": 100}),
        ],
    ),
}


def check_events(trace: str, number: int, parts: list[tuple[str, dict[str, Any]]], *, minute: int = 0) -> list[Event]:
    """Return the events of one check. Those of a client without check spans have no parent."""
    has_check = any(kind == "check" for kind, _ in parts)
    events = []
    for position, (kind, data) in enumerate(parts):
        properties = {key: value for key, value in data.items() if key != "is_open"}
        at = f"2026-11-16T08:{minute:02}:{position:02}Z"
        event = {
            "type": "span",
            "trace_id": trace,
            "span_id": f"{number}-{kind}",
            "event": f"compact.{kind}",
            "started_at": at,
            "properties": properties,
        }
        if not data.get("is_open"):
            event["ended_at"] = at
        if has_check and kind != "check":
            event["parent_id"] = f"{number}-check"
        events.append(event)
    return events
