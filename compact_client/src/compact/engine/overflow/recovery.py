"""Recover from a context overflow: remove the oldest units from the request so that it can be sent again.

Works without a model and with a host that shows its whole history again. The provider's numbers correct later
estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from compact import events
from compact.engine.call import Call, FixedTokens
from compact.engine.compaction.compaction import warn_of_evicted_results
from compact.engine.compaction.drafts import host_messages
from compact.engine.effects import Steps
from compact.engine.engine import Engine
from compact.engine.overflow.errors import Overflow, oldest_units, read_overflow
from compact.engine.session import Session
from compact.engine.session.stored_plan import commit_plan
from compact.exceptions import CompactError
from compact.messages.span import SpanReference
from compact.planning.budget import correction_factor
from compact.planning.plan import CompactionPlan, DropRecord, LedgerEntry
from compact.planning.tool_results.non_replayable import non_replayable_ids

# Without numbers from the provider, each attempt frees this share of the request more than the one before.
_BLIND_SHARE = 0.15


def recover(
    engine: Engine, session: Session, items: Sequence[Any], error: BaseException, attempt: int
) -> Steps[list[Any]]:
    """Return the request without its oldest units. Raise if the retries are used up or nothing can be removed."""
    check = engine.open_check(session, "overflow")
    try:
        return (yield from OverflowRecovery(engine, session, check, attempt).run(items, error))
    except CompactError as failure:
        check.emit(events.ErrorEvent.from_exception(failure, "none: raised to the caller"))
        check.close(is_error=True)
        raise


@dataclass(frozen=True, slots=True)
class Removal:
    """The messages that a recovery removes."""

    drop: DropRecord
    entries: tuple[LedgerEntry, ...]
    non_replayable_ids: tuple[str, ...]


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
        tokens_before = session.last_estimate or engine.estimate(session, FixedTokens())
        overflow = read_overflow(error)
        self._learn(overflow, tokens_before)
        removal = self._select_removal(overflow)
        if removal is None:
            raise CompactError(
                "The request exceeds the context window, and only pinned messages and the newest one are left. "
                "Pin fewer messages or use a model with a larger window."
            ) from error
        plan = self._plan_with(removal)
        if engine.cfg.plan_store is not None:
            # This request must be sent now, so a conflict is left to the next preflight.
            yield from commit_plan(session, engine.cfg.plan_store, plan, check)
        session.set_plan(plan)
        session.render(engine.render_options)
        freed_tokens = round(sum(entry.tokens for entry in removal.entries) * session.correction)
        session.last_estimate = max(0, tokens_before - freed_tokens)
        self._report(overflow, removal, tokens_before)
        session.record_sent()
        return session.request.to_items(items)

    def _learn(self, overflow: Overflow, estimated_tokens: int) -> None:
        """Correct later estimates by the tokens that the provider counted."""
        if overflow.requested_tokens:
            uncorrected = round(estimated_tokens / self._session.correction)
            self._session.correction = correction_factor(overflow.requested_tokens, uncorrected)
            self._session.is_corrected = True

    def _tokens_to_free(self, overflow: Overflow) -> int:
        session = self._session
        blind = round(session.request.message_tokens * _BLIND_SHARE * self._attempt)
        if overflow.limit_tokens is None or overflow.requested_tokens is None:
            return blind
        excess = overflow.requested_tokens - overflow.limit_tokens + self._engine.policy.hard_cap_buffer
        return max(round(excess / session.correction), blind // 3)

    def _select_removal(self, overflow: Overflow) -> Removal | None:
        """Choose the oldest units to remove, or return None if every unit is pinned or the newest."""
        session = self._session
        messages, counts = host_messages(session)
        evictable_ids = non_replayable_ids(messages, session.durability)
        units = oldest_units(
            messages,
            counts,
            self._engine.policy,
            tokens_to_free=self._tokens_to_free(overflow),
            protected_ids=session.protected_ids,
            non_replayable_ids=evictable_ids,
        )
        if not units:
            return None
        indices = sorted(index for unit in units for index in unit.indices)
        ids = tuple(messages[index].id or "" for index in indices)
        turns = session.turn_numbers(messages)
        session.redaction.update(session.history)
        drop = DropRecord(
            SpanReference(ids, turns[indices[0]], turns[indices[-1]]), f"context overflow, attempt {self._attempt}"
        )
        entries = tuple(
            LedgerEntry(
                messages[index].id or "",
                session.redaction.hash(messages[index]),
                messages[index].role,
                counts[index],
                "dropped",
                drop.reason,
            )
            for index in indices
        )
        return Removal(drop, entries, tuple(message_id for message_id in ids if message_id in evictable_ids))

    def _plan_with(self, removal: Removal) -> CompactionPlan:
        """Return the session's plan with one more drop."""
        session, now = self._session, events.iso(self._engine.clock())
        plan = session.plan
        if plan is None:
            return CompactionPlan(
                session.session_id,
                session.thread.version,
                now,
                version=session.next_plan_version,
                step=0,
                # The in-place renderer moves nothing to the front because of a removal.
                renderer="inplace",
                drops=(removal.drop,),
                absorbed=removal.entries,
            )
        return replace(
            plan,
            version=session.next_plan_version,
            created_at=now,
            drops=(*plan.drops, removal.drop),
            absorbed=(*plan.absorbed, *removal.entries),
        )

    def _report(self, overflow: Overflow, removal: Removal, tokens_before: int) -> None:
        check, session = self._check, self._session
        removed_ids = removal.drop.span.message_ids
        check.emit(
            events.OverflowRecoveredEvent(
                attempt=self._attempt,
                removed_count=len(removed_ids),
                tokens_before=tokens_before,
                tokens_after=session.last_estimate,
                limit_tokens=overflow.limit_tokens,
                requested_tokens=overflow.requested_tokens,
                removed=list(removed_ids),
            )
        )
        warn_of_evicted_results(check, removal.non_replayable_ids)
        check.update(triggered=True, tokens_before=tokens_before, tokens_after=session.last_estimate)
        check.close()
