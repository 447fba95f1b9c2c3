"""One compaction, in the order of its effects.

Draft, archive, climb the ladder, summarise, guard, commit, render. Nothing is changed until the plan is committed:
a failure before that leaves the session as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from compact import events
from compact.engine.archive import archive_summary, archive_transcript
from compact.engine.check_events import emit_error
from compact.engine.compaction_events import announce, warn_of_irreplaceable
from compact.engine.drafts import draft_again
from compact.engine.effects import Steps, of_store
from compact.engine.job import Climb, Job, render
from compact.engine.ladder import climb_ladder, has_long_memory
from compact.engine.ledger import absorbed_by, build_ledger, cache_effect
from compact.exceptions import InsufficientBudget, PlanConflict, StoreFailed
from compact.messages import Message
from compact.messages.span import SpanReference
from compact.planning.draft import Draft
from compact.planning.limits import TokenLimits
from compact.planning.log import AgentThread
from compact.planning.plan import ClearRecord, CompactionPlan, DropRecord, ExternalizationRecord, SummarizationRecord

_FIT_ATTEMPTS = 4
ONLY_HERE = "the plan is known in this process only"


def compact(job: Job, first: Draft, messages: Sequence[Message], counts: Sequence[int]) -> Steps[bool]:
    """Compact the session's request; True if its plan changed. Raises `InsufficientBudget`."""
    session = job.session
    current, room = first, job.room
    while not current.partition.remainder and not has_long_memory(job, current):
        if (used := job.estimate()) <= job.budget_tokens:
            return False
        # It fits as we count and not as the caller does.
        room = _lower(job, room, used)
        current = draft_again(job, messages, counts, room)
    step = (session.plan.step if session.plan else _named_step(session.view)) + 1
    yield from archive_transcript(job, step)
    plan_before, request_before = session.plan, session.request
    for attempt in range(1, _FIT_ATTEMPTS + 1):
        climb = yield from climb_ladder(job, current, messages, counts, step)
        if climb.missing_constraints and current.partition.keep_turns > 0:
            current, climb = yield from _with_more_room(job, current, climb, messages, counts, step)
        plan = _plan(job, current, climb, messages, counts, step)
        session.plan = plan
        render(job)
        after = job.estimate()
        if after <= job.budget_tokens:
            break
        # Our counts and the caller's differ, or the summary came out long: aim lower and draft again.
        session.plan, session.request = plan_before, request_before
        room = _lower(job, room, after)
        if attempt == _FIT_ATTEMPTS:
            raise InsufficientBudget(needed_tokens=after, budget_tokens=job.budget_tokens, detail="what must stay")
        current = draft_again(job, messages, counts, room)
    ledger = build_ledger(job, current, plan, request_before)
    plan = replace(
        plan,
        ledger=ledger,
        absorbed=(*(plan_before.absorbed if plan_before else ()), *absorbed_by(ledger)),
        compacted_token_count=after,
        cache=cache_effect(request_before.messages, request_before.counts, session.request, job.tokens_before, after),
    )
    session.plan = plan
    yield from _commit(job, plan_before)
    released = [messages[index] for unit in current.evicted for index in unit.indices]
    warn_of_irreplaceable(job.check, [message.id or "" for message in released if message.answers])
    announce(job, current, climb, after)
    yield from archive_summary(job, step)
    return True


def _lower(job: Job, room: TokenLimits, used_tokens: int) -> TokenLimits:
    """The limits to draft by when a request of so many tokens, as the caller counts, came out too large."""
    return room.scale(min(0.97, job.budget_tokens / used_tokens * 0.97))


def _with_more_room(
    job: Job, current: Draft, climb: Climb, messages: Sequence[Message], counts: Sequence[int], step: int
) -> Steps[tuple[Draft, Climb]]:
    """A standing instruction did not fit: give the summary the room of all but the newest unit."""
    try:
        lower = draft_again(job, messages, counts, job.room, keep_only_newest=True)
    except InsufficientBudget:
        return current, climb
    again = yield from climb_ladder(job, lower, messages, counts, step)
    return (lower, again) if again.missing_constraints < climb.missing_constraints else (current, climb)


def _named_step(view: Sequence[Message]) -> int:
    """The number of a summary that an earlier process left in the history."""
    numbers = [0]
    for message in view:
        if message.is_summary:
            digits = message.text[len("<COMPACT-SUMMARY v") :].partition(">")[0]
            numbers.append(int(digits) if digits.isdigit() else 0)
    return max(numbers)


def _plan(
    job: Job, current: Draft, climb: Climb, messages: Sequence[Message], counts: Sequence[int], step: int
) -> CompactionPlan:
    before = job.session.plan
    bridge = job.policy.renderer == "bridge"
    lead = [unit for unit in current.partition.pinned if not (bridge and unit.kind == "tool")]
    if bridge:
        lead += [unit for unit in current.partition.recent if unit.kind == "user"]
    lead_ids = [messages[index].id or "" for unit in lead for index in unit.indices]
    summarizations = _of(before, "summarizations") + _new(climb, SummarizationRecord)
    drops = _of(before, "drops") + _new(climb, DropRecord)
    if current.folds_replacements and summarizations:
        united = _united(summarizations, climb, job.session.thread)
        summarizations = (united,) if isinstance(united, SummarizationRecord) else ()
        drops += (united,) if isinstance(united, DropRecord) else ()
    return CompactionPlan(
        thread_id=job.session.session_id,
        thread_version=job.session.thread.version,
        created_at=events.iso(job.clock()),
        version=max(job.session.plans, default=0) + 1,
        step=step,
        renderer=job.policy.renderer,
        externalizations=_externalizations(before, climb, fold=climb.is_new_summary or current.folds_replacements),
        summarizations=summarizations,
        clearings=_of(before, "clearings") + _new(climb, ClearRecord),
        drops=drops,
        session_summary=climb.summary,
        summary_text=climb.summary_text,
        lead_ids=tuple(lead_ids),
        original_token_count=job.tokens_before,
    )


def _of(plan: CompactionPlan | None, name: str) -> tuple[Any, ...]:
    return getattr(plan, name) if plan else ()


def _new(climb: Climb, kind: type) -> tuple[Any, ...]:
    return tuple(record for record in climb.records if isinstance(record, kind))


def _united(
    records: Sequence[SummarizationRecord], climb: Climb, thread: AgentThread
) -> SummarizationRecord | DropRecord:
    """All summarised spans as one, with the summary of them all; without room for any summary they are left out."""
    order = {message.id: place for place, message in enumerate(thread)}
    ids = (message_id for record in records for message_id in record.span.message_ids)
    span = SpanReference(
        tuple(sorted(ids, key=lambda message_id: order.get(message_id, len(order)))),
        min(record.span.first_turn for record in records),
        max(record.span.last_turn for record in records),
    )
    if climb.summary is None:
        return DropRecord(span, "no room for a summary")
    return SummarizationRecord(span, climb.summary, climb.summary_tokens)


def _externalizations(before: CompactionPlan | None, climb: Climb, *, fold: bool) -> tuple[ExternalizationRecord, ...]:
    """Earlier pointers move into the summary that is made now; new ones stand on their own."""
    earlier = tuple(replace(record, is_folded=True) if fold else record for record in _of(before, "externalizations"))
    return earlier + _new(climb, ExternalizationRecord)


def _commit(job: Job, plan_before: CompactionPlan | None) -> Steps[None]:
    session = job.session
    plan = session.plan
    assert plan is not None
    if job.plan_store is not None:
        expected = session.store_version
        try:
            committed = yield from of_store(
                "plan", lambda: job.plan_store.commit_plan(session.session_id, plan, expected)
            )
        except StoreFailed as error:
            emit_error(job.check, error, ONLY_HERE)
        else:
            if not committed:
                session.plan = plan_before
                render(job)
                text = f"another process committed a plan for {session.session_id!r} after version {expected}"
                raise PlanConflict(text)
            session.store_version = expected + 1
    session.plans[plan.version] = plan
