"""What a check found and decided, as events.

Each event is made in one place, so that the server and the documentation have one shape to agree with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compact import events
from compact.engine.session import Session
from compact.planning.draft import Draft
from compact.planning.trigger import Decision

if TYPE_CHECKING:
    from compact.engine.engine import Engine


def emit_estimate(engine: Engine, session: Session, check: events.CheckSpan, fixed: int, spoken: int) -> int:
    total = engine.estimate(session, fixed + spoken)
    session.breakdown_of = lambda after: engine.breakdown(session, fixed, spoken, after)
    if check.has_listeners:
        window = engine.cfg.max_context_tokens
        check.emit(
            events.TokenEstimateEvent(
                model=engine.cfg.model,
                t_est=total,
                max_tokens=window,
                usage_pct=round(total / window, 6) if window else None,
                turn=session.turn,
                estimator=engine.counting.name,
                source="provider" if session.is_corrected else "estimate",
                breakdown=engine.breakdown(session, fixed, spoken, total),
            )
        )
    return total


def emit_decision(
    engine: Engine, session: Session, check: events.CheckSpan, decision: Decision, found: Draft | None, note: str | None
) -> None:
    if not check.has_listeners:
        return
    policy = engine.policy
    kept = pruned_count = None
    if decision.triggered:
        part = found.partition if found else None
        kept = events.KeptCounts(
            pinned=sum(len(unit.indices) for unit in part.pinned) if part else 0,
            recent_turns=part.recent_turns if part else 0,
            tool_pairs=part.tool_pairs if part else 0,
        )
        pruned_count = sum(len(unit.indices) for unit in part.remainder) if part else 0
    check.emit(
        events.TriggerDecisionEvent(
            triggered=decision.triggered,
            reason=decision.reason if note is None else f"{decision.reason}: {note}",
            rule=decision.rule,
            margin_tokens=decision.margin_tokens,
            t_est=decision.used_tokens,
            max_tokens=engine.cfg.max_context_tokens,
            trigger_tokens=decision.trigger_tokens,
            budget_tokens=engine.budget_tokens,
            turn=session.turn,
            policy=events.PolicyExcerpt(
                trigger_pct=policy.trigger_pct,
                hard_cap_buffer=policy.hard_cap_buffer,
                strategy=policy.strategy,
                keep_recent_turns=policy.keep_recent_turns,
                keep_tool_io_pairs=policy.keep_tool_io_pairs,
                renderer=policy.renderer,
                pruning=policy.pruning,
            ),
            note=note,
            kept=kept,
            pruned_count=pruned_count,
        )
    )


def emit_quality(engine: Engine, session: Session, check: events.CheckSpan) -> None:
    if session.plan is None or session.plan.step == 0:
        return
    check.emit(
        events.QualityEvent(
            turns_since_compaction=session.turns_since_compaction,
            agent_asked_for_context=session.asked_for_context,
            rehydration_requests=session.rehydration_requests,
            task_completion_success=session.task_success,
        )
    )


def emit_error(check: events.CheckSpan, error: Exception, fallback: str) -> None:
    check.emit(events.ErrorEvent.from_exception(error, fallback))
