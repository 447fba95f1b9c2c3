"""Run a compaction, and run it again without a store that fails or with the plan of a process that was faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from compact import events
from compact.delivery.stderr import say
from compact.engine.compaction.archive import ArchiveFailed
from compact.engine.compaction.compaction import Compaction
from compact.engine.effects import Steps
from compact.engine.quality import report_quality
from compact.engine.session import Session
from compact.engine.session.stored_plan import LOCAL_PLAN_FALLBACK
from compact.exceptions import PlanConflict, StoreFailed
from compact.planning.trigger import Decision

if TYPE_CHECKING:
    from compact.engine.engine import Engine

_COMMIT_ATTEMPTS = 3


class CompactionAttempts:
    """All attempts to compact one request. `create` returns a new compaction for a decision."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        check: events.CheckSpan,
        items: Sequence[Any],
        create: Callable[[Decision], Compaction],
    ) -> None:
        self._engine = engine
        self._session = session
        self._check = check
        self._items = items
        self._create = create

    def run(self, decision: Decision) -> Steps[bool]:
        """Compact, and report the result. Return True if the plan changed.

        Raises `InsufficientBudget`, and `ArchiveFailed` if the request cannot be sent as it is.
        """
        engine, check = self._engine, self._check
        budget = engine.budget_tokens(self._session)
        check.update(triggered=True, tokens_before=decision.used_tokens)
        check.open()
        check.emit(events.CheckStartedEvent(tokens_before=decision.used_tokens, budget_limit=budget))
        compaction = self._create(decision)
        conflicts = 0
        while True:
            try:
                is_changed = yield from compaction.run()
                break
            except ArchiveFailed as error:
                if budget is not None and decision.used_tokens > budget:
                    raise
                fallback = "not compacted: archive failed"
                check.emit(events.ErrorEvent.from_exception(error, fallback))
                say("Ariadne", f"{fallback}. {error}")
                return False
            except StoreFailed as error:
                check.emit(events.ErrorEvent.from_exception(error, "compacted without externalizing"))
                compaction.artifact_store = None
            except PlanConflict as error:
                conflicts += 1
                if conflicts == _COMMIT_ATTEMPTS:
                    check.emit(events.ErrorEvent.from_exception(error, LOCAL_PLAN_FALLBACK))
                    compaction.plan_store = None
                    continue
                new_decision = yield from self._resolve_conflict(error, compaction)
                if not new_decision.triggered:
                    return True
                compaction = self._create(new_decision)
        self._complete(compaction, is_changed=is_changed)
        return is_changed

    def _resolve_conflict(self, error: PlanConflict, compaction: Compaction) -> Steps[Decision]:
        """Adopt the plan of the other process and decide again."""
        engine, session = self._engine, self._session
        fallback = "adopted the other plan and checked the request again"
        self._check.emit(events.ErrorEvent.from_exception(error, fallback))
        yield from engine.adopt_stored_plan(session, self._items, self._check)
        return engine.decide(session, engine.estimate(session, compaction.fixed), is_manual=False)

    def _complete(self, compaction: Compaction, *, is_changed: bool) -> None:
        engine, session, check = self._engine, self._session, self._check
        before, after = compaction.tokens_before, engine.estimate(session, compaction.fixed)
        window = engine.window_tokens(session) or before
        is_effective = is_changed and before - after >= engine.policy.min_gain_pct * window
        session.ineffective_compactions = 0 if is_effective else session.ineffective_compactions + 1
        session.tokens_after_compaction = after
        if is_changed:
            report_quality(session, check)
            session.turns_since_compaction, session.rehydration_requests = 0, 0
        check.emit(
            events.CompletedEvent(
                tokens_before=before,
                tokens_after=after,
                budget_limit=engine.budget_tokens(session),
                tokens_freed=before - after,
                strategy=engine.policy.strategy,
                details=events.CompletedDetails(changed=is_changed),
            )
        )
