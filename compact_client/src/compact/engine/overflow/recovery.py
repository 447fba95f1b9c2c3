"""Recover from a context overflow with a compaction.

The provider's error is the trigger. Its numbers give the true window and correct the estimate, and the session plans
with both from then on. Without numbers, the rejected request itself is the upper limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compact import events
from compact.engine.call import Call
from compact.engine.compaction.archive import TranscriptArchive
from compact.engine.compaction.attempts import CompactionAttempts
from compact.engine.compaction.proposal import Inputs
from compact.engine.effects import Steps
from compact.engine.engine import Engine
from compact.engine.overflow.errors import Overflow, read_overflow
from compact.engine.session import Session
from compact.exceptions import CompactError, InsufficientBudget
from compact.planning.trigger import Decision

# Without numbers from the provider, the window is assumed to be this share of the rejected request, by attempt.
_BLIND_SHARES = (0.85, 0.6, 0.4)
_REMOVED_FATES = ("summarized", "externalized", "dropped")


def recover(
    engine: Engine, session: Session, items: Sequence[Any], error: BaseException, attempt: int
) -> Steps[list[Any]]:
    """Return a compacted request. Raise if the retries are used up or the request cannot get smaller."""
    check = engine.open_check(session, "overflow")
    try:
        return (yield from OverflowRecovery(engine, session, check, attempt).run(items, error))
    except CompactError as failure:
        check.emit(events.ErrorEvent.from_exception(failure, events.RAISED))
        check.close(is_error=True)
        raise


class OverflowRecovery:
    """One attempt to make a request smaller after the provider rejected it."""

    def __init__(self, engine: Engine, session: Session, check: events.CheckSpan, attempt: int) -> None:
        self._engine = engine
        self._session = session
        self._check = check
        self._attempt = attempt

    def run(self, items: Sequence[Any], error: BaseException) -> Steps[list[Any]]:
        """Return the smaller request."""
        engine, session, check, attempt = self._engine, self._session, self._check, self._attempt
        if attempt > engine.policy.overflow_max_retries:
            raise CompactError(
                f"The request still exceeds the context window after {attempt - 1} recovery attempts."
            ) from error
        # The host may show what was sent or its own list, and it may never have called preflight.
        yield from engine.observe(session, Call(items), check)
        overflow = read_overflow(error)
        self._learn(overflow)
        used_tokens = engine.estimate(session, session.fixed)
        engine.report_estimate(session, check, session.fixed, used_tokens)
        yield from self._compact(items, self._decision(overflow, used_tokens), error)
        session.last_estimate = engine.estimate(session, session.fixed)
        self._report(overflow, used_tokens)
        session.record_sent()
        return session.request.to_items(items, session.host_list)

    def _learn(self, overflow: Overflow) -> None:
        """Correct later estimates by the tokens that the provider counted, and plan with its window."""
        engine, session = self._engine, self._session
        estimated_tokens = engine.estimate(session, session.fixed)
        if overflow.requested_tokens:
            session.usage.observe_overflow(session.usage.revert(estimated_tokens), overflow.requested_tokens)
            estimated_tokens = engine.estimate(session, session.fixed)
        share = _BLIND_SHARES[min(self._attempt, len(_BLIND_SHARES)) - 1]
        window = overflow.limit_tokens or engine.window_tokens(session)
        if overflow.excess_tokens:
            window = min(window or estimated_tokens, estimated_tokens - overflow.excess_tokens)
        is_explained = window is not None and estimated_tokens > window and overflow.requested_tokens is not None
        if window is None or not is_explained:
            # The rejected request is all that is known.
            window = min(window or estimated_tokens, int(estimated_tokens * share))
        session.shared.learned_window = max(1, min(window, engine.cfg.max_context_tokens or window))

    def _decision(self, overflow: Overflow, used_tokens: int) -> Decision:
        engine, session = self._engine, self._session
        planned = engine.decide(session, used_tokens, is_manual=False)
        reason = f"the provider rejected the request: {used_tokens:,} tokens, window {session.shared.learned_window:,}"
        if overflow.limit_tokens is None:
            reason += " (assumed)"
        return Decision(True, "overflow", reason, used_tokens, planned.trigger_tokens)

    def _compact(self, items: Sequence[Any], decision: Decision, error: BaseException) -> Steps[None]:
        attempts = CompactionAttempts(self._engine, self._session, self._check, items, self._inputs)
        try:
            is_changed = yield from attempts.run(decision)
        except InsufficientBudget as failure:
            raise CompactError(
                "The request exceeds the context window, and only pinned messages and the newest one are left. "
                f"Pin fewer messages or use a model with a larger window. {failure}"
            ) from error
        if not is_changed:
            raise CompactError("The request exceeds the context window, and nothing in it can be shortened.") from error

    def _inputs(self, decision: Decision) -> Inputs:
        engine, session = self._engine, self._session
        return Inputs(
            engine,
            session,
            self._check,
            decision,
            TranscriptArchive(engine, session, self._check),
            session.fixed,
            engine.cfg.artifact_store,
            # The request must become smaller, or the call fails.
            floor=engine.policy.floor or "newest",
        )

    def _report(self, overflow: Overflow, tokens_before: int) -> None:
        check, session = self._check, self._session
        plan = session.plan
        assert plan is not None
        removed = [entry.id for entry in plan.ledger if entry.fate in _REMOVED_FATES]
        check.emit(
            events.OverflowRecoveredEvent(
                attempt=self._attempt,
                removed_count=len(removed),
                tokens_before=tokens_before,
                tokens_after=session.last_estimate,
                limit_tokens=overflow.limit_tokens,
                requested_tokens=overflow.requested_tokens,
                window_tokens=session.shared.learned_window,
                removed=removed,
            )
        )
        check.update(triggered=True, tokens_before=tokens_before, tokens_after=session.last_estimate, step=plan.step)
        check.close()
