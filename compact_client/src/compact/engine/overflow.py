"""Carry out overflow recovery: remove the oldest units from the plan and try again.

Works without a model, survives a host that shows its whole history again, and learns from the provider's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from compact import events
from compact.engine.call import Call
from compact.engine.check_events import emit_error
from compact.engine.compaction import ONLY_HERE
from compact.engine.compaction_events import warn_of_irreplaceable
from compact.engine.drafts import plannable
from compact.engine.effects import Steps, of_store
from compact.engine.ladder import turns_of
from compact.engine.ledger import hash_of
from compact.engine.overflow_errors import Overflow, oldest_units, read_overflow
from compact.engine.request import Sent, written
from compact.engine.session import Session
from compact.exceptions import CompactError, StoreFailed
from compact.messages.span import SpanReference
from compact.planning.budget import correction_factor
from compact.planning.non_replayable import non_replayable_ids
from compact.planning.plan import CompactionPlan, DropRecord, LedgerEntry

if TYPE_CHECKING:
    from compact.engine.engine import Engine

# With no numbers to go by, each attempt frees this share of the request more than the one before.
_BLIND_SHARE = 0.15


def recover(
    engine: Engine, session: Session, items: Sequence[Any], error: BaseException, attempt: int
) -> Steps[list[Any]]:
    """The request without its oldest units; raises when nothing more may go or the attempts are used up."""
    check = engine.check_for(session, "overflow")
    try:
        return (yield from _recover(engine, session, check, items, error, attempt))
    except CompactError as failure:
        emit_error(check, failure, "none: raised to the caller")
        check.close(is_error=True)
        raise


def _recover(
    engine: Engine, session: Session, check: events.CheckSpan, items: Sequence[Any], error: BaseException, attempt: int
) -> Steps[list[Any]]:
    if attempt > engine.policy.overflow_max_retries:
        raise CompactError(f"still over the context window after {attempt - 1} attempts to recover") from error
    # The host may show what was sent or what it had before, and it may never have asked for a preflight.
    yield from engine.take_in(session, Call(items), check)
    before = session.last_estimate or engine.estimate(session, 0)
    overflow = read_overflow(error)
    _learn(session, overflow, before)
    messages, counts = plannable(session)
    needed = _tokens_to_free(engine, session, overflow, attempt)
    irreplaceable = non_replayable_ids(messages, session.durability)
    units = oldest_units(
        messages,
        counts,
        engine.policy,
        tokens_to_free=needed,
        protected_ids=session.protected_ids,
        non_replayable_ids=irreplaceable,
    )
    if not units:
        raise CompactError("over the context window, and nothing that is not pinned is left to remove") from error
    turns = turns_of(messages, session.view)
    indices = sorted(index for unit in units for index in unit.indices)
    ids = tuple(messages[index].id or "" for index in indices)
    record = DropRecord(
        SpanReference(ids, turns[indices[0]], turns[indices[-1]]), f"context overflow, attempt {attempt}"
    )
    ledger = tuple(
        LedgerEntry(
            messages[index].id or "",
            hash_of(session, engine.outbound, messages[index]),
            messages[index].role,
            counts[index],
            "dropped",
            record.reason,
        )
        for index in indices
    )
    plan = _with_drop(engine, session, record, ledger)
    if engine.cfg.plan_store is not None:
        # A conflict is left to the next preflight: this request must go out now.
        expected = session.store_version
        try:
            committed = yield from of_store(
                "plan", lambda: engine.cfg.plan_store.commit_plan(session.session_id, plan, expected)
            )
        except StoreFailed as failure:
            emit_error(check, failure, ONLY_HERE)
        else:
            session.store_version += bool(committed)
    session.plan = plan
    session.plans[plan.version] = plan
    session.render(
        count=engine.counting.message,
        shorten=engine.shortener(session),
        protected_flag=engine.policy.protected_flag,
    )
    session.last_estimate = max(0, before - round(sum(entry.tokens for entry in ledger) * session.correction))
    check.emit(
        events.OverflowRecoveredEvent(
            attempt=attempt,
            removed_count=len(ids),
            tokens_before=before,
            tokens_after=session.last_estimate,
            limit_tokens=overflow.limit_tokens,
            requested_tokens=overflow.requested_tokens,
            removed=list(ids),
        )
    )
    warn_of_irreplaceable(check, [message_id for message_id in ids if message_id in irreplaceable])
    check.update(triggered=True, tokens_before=before, tokens_after=session.last_estimate)
    check.close()
    session.sent.append(Sent(session.view_version, len(session.view), plan.version))
    return written(session.request, items)


def _learn(session: Session, overflow: Overflow, estimated_tokens: int) -> None:
    if overflow.requested_tokens:
        uncorrected = round(estimated_tokens / session.correction)
        session.correction = correction_factor(overflow.requested_tokens, uncorrected)
        session.is_corrected = True


def _tokens_to_free(engine: Engine, session: Session, overflow: Overflow, attempt: int) -> int:
    total = session.request.message_tokens
    blind = round(total * _BLIND_SHARE * attempt)
    if overflow.limit_tokens is None or overflow.requested_tokens is None:
        return blind
    over = overflow.requested_tokens - overflow.limit_tokens + engine.policy.hard_cap_buffer
    return max(round(over / session.correction), blind // 3)


def _with_drop(engine: Engine, session: Session, record: DropRecord, ledger: tuple[LedgerEntry, ...]) -> CompactionPlan:
    now = events.iso(engine.clock())
    plan = session.plan
    if plan is None:
        return CompactionPlan(
            session.session_id,
            session.thread.version,
            now,
            version=max(session.plans, default=0) + 1,
            step=0,
            # In place: nothing is moved to the front for the sake of a removal.
            renderer="inplace",
            drops=(record,),
            absorbed=ledger,
        )
    return replace(
        plan,
        version=plan.version + 1,
        created_at=now,
        drops=(*plan.drops, record),
        absorbed=(*plan.absorbed, *ledger),
    )
