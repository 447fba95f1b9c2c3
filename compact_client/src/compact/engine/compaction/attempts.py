"""Compact a request: propose, commit, and report. A commit that fails costs no second summary.

The plan of a session changes in one place, `_commit`. If the plan store rejects a candidate, the store is read again.
It may have the plan of a process that was faster. Then that plan is used, and if it is not enough, the next proposal
uses the summary that is already written. If the store has no such plan, the same candidate is committed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from compact import events
from compact.delivery.stderr import log_problem
from compact.engine.compaction.archive import ArchiveFailed
from compact.engine.compaction.proposal import Inputs, Proposal, propose
from compact.engine.compaction.report import discard_summary, report_changes, warn_of_evicted_results
from compact.engine.effects import Steps
from compact.engine.quality import report_quality
from compact.engine.session import Session
from compact.engine.session.stored_plan import LOCAL_PLAN_FALLBACK, commit_plan
from compact.exceptions import PlanConflict, StoreFailed
from compact.planning.trigger import Decision

if TYPE_CHECKING:
    from compact.engine.engine import Engine

_COMMIT_ATTEMPTS = 3


class CompactionAttempts:
    """All attempts to compact one request. `create` returns the inputs of a compaction for a decision."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        check: events.CheckSpan,
        items: Sequence[Any],
        create: Callable[[Decision], Inputs],
    ) -> None:
        self._engine = engine
        self._session = session
        self._check = check
        self._items = items
        self._create = create
        self._conflicts = 0

    def run(self, decision: Decision) -> Steps[bool]:
        """Compact, and report the result. Return True if the plan changed.

        Raises `InsufficientBudget`, and `ArchiveFailed` if the request cannot be sent as it is.
        """
        check, budget = self._check, self._engine.budget_tokens(self._session)
        check.update(triggered=True, tokens_before=decision.used_tokens)
        check.open()
        check.emit(events.CheckStartedEvent(tokens_before=decision.used_tokens, budget_limit=budget))
        inputs: Inputs | None = self._create(decision)
        while inputs is not None:
            try:
                inputs, proposal = yield from self._propose(inputs)
            except ArchiveFailed as error:
                if budget is not None and decision.used_tokens > budget:
                    raise
                fallback = "not compacted: archive failed"
                check.emit(events.ErrorEvent.from_exception(error, fallback))
                log_problem("Ariadne", f"{fallback}. {error}")
                return False
            if proposal is None:
                self._complete(inputs, is_changed=False)
                return False
            is_committed = yield from self._commit(proposal)
            if is_committed:
                yield from self._report(inputs, proposal)
                self._complete(inputs, is_changed=True)
                return True
            inputs = self._inputs_beside_other_plan(inputs, proposal)
        return True

    def _propose(self, inputs: Inputs) -> Steps[tuple[Inputs, Proposal | None]]:
        """Propose a compaction, without the artifact store if that fails."""
        try:
            proposal = yield from propose(inputs, inputs.limits)
        except StoreFailed as error:
            self._check.emit(events.ErrorEvent.from_exception(error, "compacted without externalizing"))
            inputs = replace(inputs, artifact_store=None)
            proposal = yield from propose(inputs, inputs.limits)
        return inputs, proposal

    def _commit(self, proposal: Proposal) -> Steps[bool]:
        """Commit a proposal, again if need be. Return False if another process was faster and its plan is used."""
        session, store = self._session, self._engine.cfg.plan_store
        while store is not None:
            expected, plan_before = session.stored_plan_version, session.plan
            is_stored = yield from commit_plan(session, store, proposal.plan, self._check)
            if is_stored:
                break
            self._conflicts += 1
            text = f"Another process committed a plan for session {session.session_id!r} after version {expected}."
            is_last = self._conflicts == _COMMIT_ATTEMPTS
            fallback = LOCAL_PLAN_FALLBACK if is_last else "read the stored plan and checked the request again"
            self._check.emit(events.ErrorEvent.from_exception(PlanConflict(text), fallback))
            if is_last:
                break
            yield from self._engine.adopt_stored_plan(session, self._items, self._check)
            if session.plan is not plan_before:
                return False
        session.commit(proposal)
        return True

    def _inputs_beside_other_plan(self, inputs: Inputs, proposal: Proposal) -> Inputs | None:
        """Return the inputs of the next proposal, or None if the plan of the other process is enough."""
        engine, session = self._engine, self._session
        decision = engine.decide(session, engine.estimate(session, inputs.fixed), is_manual=False)
        if not decision.triggered:
            discard_summary(self._check, proposal.changes.summary, "another process was faster")
            return None
        return replace(self._create(decision), reusable=proposal.changes.summary.written)

    def _report(self, inputs: Inputs, proposal: Proposal) -> Steps[None]:
        """Report a committed proposal. No event describes one that failed."""
        engine, session, check, changes = self._engine, self._session, self._check, proposal.changes
        warn_of_evicted_results(check, changes.evicted_ids)
        if check.has_listeners:
            report_changes(
                check,
                session,
                proposal,
                changes,
                tokens_before=inputs.decision.used_tokens,
                breakdown_after=engine.breakdown(session, inputs.fixed, proposal.tokens_after),
            )
        yield from inputs.archive.save_summary(proposal.plan)

    def _complete(self, inputs: Inputs, *, is_changed: bool) -> None:
        engine, session, check = self._engine, self._session, self._check
        before, after = inputs.decision.used_tokens, engine.estimate(session, inputs.fixed)
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
