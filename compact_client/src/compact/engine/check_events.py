"""What a check found and decided, as events.

Each event is made in one place, so that the server and the documentation have one shape to agree with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compact import events
from compact.engine.quality import CompactionQualityMetrics
from compact.engine.session import Session
from compact.planning.draft import Draft
from compact.planning.trigger import Decision

if TYPE_CHECKING:
    from compact.engine.engine import Engine


def emit_estimate(engine: Engine, session: Session, check: events.Check, fixed: int, spoken: int) -> int:
    total = engine.estimate(session, fixed + spoken)
    session.breakdown_of = lambda after: engine.breakdown(session, fixed, spoken, after)
    if check.is_watched:
        window = engine.cfg.max_context_tokens
        check.emit(
            events.TOKEN_ESTIMATE,
            {
                "model": engine.cfg.model,
                "t_est": total,
                "max_tokens": window,
                "usage_pct": round(total / window, 6) if window else None,
                "turn": session.turn,
                "estimator": engine.counting.name,
                "source": "provider" if session.is_corrected else "estimate",
                "breakdown": engine.breakdown(session, fixed, spoken, total),
            },
        )
    return total


def emit_decision(
    engine: Engine, session: Session, check: events.Check, decision: Decision, found: Draft | None, note: str | None
) -> None:
    if not check.is_watched:
        return
    policy = engine.policy
    properties: dict[str, Any] = {
        "triggered": decision.triggered,
        "reason": decision.reason if note is None else f"{decision.reason}: {note}",
        "rule": decision.rule,
        "margin_tokens": decision.margin_tokens,
        "t_est": decision.used_tokens,
        "max_tokens": engine.cfg.max_context_tokens,
        "trigger_tokens": decision.trigger_tokens,
        "budget_tokens": engine.budget_tokens,
        "turn": session.turn,
        "policy": {
            "trigger_pct": policy.trigger_pct,
            "hard_cap_buffer": policy.hard_cap_buffer,
            "strategy": policy.strategy,
            "keep_recent_turns": policy.keep_recent_turns,
            "keep_tool_io_pairs": policy.keep_tool_io_pairs,
            "renderer": policy.renderer,
            "pruning": policy.pruning,
        },
    }
    if note is not None:
        properties["note"] = note
    if decision.triggered:
        part = found.partition if found else None
        properties["kept"] = {
            "pinned": sum(len(unit.indices) for unit in part.pinned) if part else 0,
            "recent_turns": part.recent_turns if part else 0,
            "tool_pairs": part.tool_pairs if part else 0,
        }
        properties["pruned_count"] = sum(len(unit.indices) for unit in part.remainder) if part else 0
    check.emit(events.TRIGGER_DECISION, properties)


def emit_quality(engine: Engine, session: Session, check: events.Check) -> None:
    if session.plan is None or session.plan.step == 0:
        return
    metrics = CompactionQualityMetrics(
        session.turns_since_compaction,
        session.asked_for_context,
        session.rehydration_requests,
        session.task_success,
    )
    check.emit(events.QUALITY, metrics.to_dict())


def emit_error(check: events.Check, error: Exception, fallback: str) -> None:
    check.emit(
        events.ERROR,
        {"error_type": type(error).__name__, "message": str(error), "fallback": fallback},
        is_error=True,
    )
