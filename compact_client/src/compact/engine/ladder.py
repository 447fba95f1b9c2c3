"""Climb the ladder: one rung after the other until the request is small enough.

The budget is not negotiable: what no rung could free is dropped, oldest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compact import events
from compact.engine.effects import Steps
from compact.engine.job import Climb, Job
from compact.engine.summary_update import refit, remember
from compact.messages import Message
from compact.messages.span import SpanReference
from compact.messages.units import Unit
from compact.planning.draft import Draft
from compact.planning.plan import ClearRecord, ExternalizationRecord, SummarizationRecord
from compact.planning.strategies import Workbench, strategy_named
from compact.rendering.base import pointer_text
from compact.summary.structured_summary import StructuredSummary


def climb_ladder(
    job: Job, current: Draft, messages: Sequence[Message], counts: Sequence[int], step: int
) -> Steps[Climb]:
    climb = Climb()
    _carry_summary(job, current, climb)
    target = 0 if job.is_manual else current.limits.target_tokens
    bench = _bench(job, current, messages, counts, step, climb)
    for name in job.policy.ladder:
        remaining = _remaining(current, climb)
        used = _used(current, climb, bench, remaining)
        if not remaining or (climb.records and used <= target):
            break
        bench.tokens_to_free = max(1, used - target)
        yield from _rung(job, name, bench, remaining, climb)
    remaining = _remaining(current, climb)
    used = _used(current, climb, bench, remaining)
    if remaining and used > current.limits.budget_tokens:
        # The loop breaker or the ladder itself left too much: the budget is not negotiable.
        bench.tokens_to_free, bench.is_after_rehydration = used - current.limits.budget_tokens, False
        yield from _rung(job, "drop", bench, remaining, climb)
    if not climb.is_new_summary and has_long_memory(job, current):
        refit(job, current, climb, step)
    return climb


def _used(current: Draft, climb: Climb, bench: Workbench, remaining: Sequence[Unit]) -> int:
    """What the request would take now."""
    kept = current.pinned_tokens + current.recent_tokens + climb.summary_tokens + climb.pointer_tokens
    return kept + bench.tokens_of(remaining) - climb.cleared_tokens


def _remaining(current: Draft, climb: Climb) -> list[Unit]:
    """What no rung has taken yet."""
    return [unit for unit in current.partition.remainder if unit.first not in climb.gone]


def _carry_summary(job: Job, current: Draft, climb: Climb) -> None:
    """Start from the summary there is; a new one will replace it, but for spans that keep their own."""
    plan = job.session.plan
    if plan is not None and plan.session_summary is not None:
        climb.summary, climb.summary_text = plan.session_summary, plan.summary_text
        if not job.keeps_spans(current):
            climb.summary_tokens = job.counting.message(Message("assistant", plan.summary_text or ""))


def has_long_memory(job: Job, current: Draft) -> bool:
    """Whether what stands for earlier compactions is longer than the room there is for it now."""
    plan = job.session.plan
    if current.folds_replacements:
        return True
    if plan is None or not plan.summary_text or job.keeps_spans(current):
        return False
    # As a message: its framing counts too where the budget is met to the token.
    return job.counting.message(Message("assistant", plan.summary_text)) > max(current.summary_tokens, 1)


def _rung(job: Job, name: str, bench: Workbench, remaining: Sequence[Unit], climb: Climb) -> Steps[None]:
    strategy = strategy_named(name)
    for proposal in strategy.analyze(bench, remaining):
        job.check.emit(
            events.ProposalGeneratedEvent(
                strategy=name,
                span=events.span_properties(proposal.span),
                tokens_freed=proposal.estimated_tokens_freed,
                details=events.ReasonDetails(reason=proposal.reason),
            )
        )
        record = yield from strategy.execute(proposal, bench)
        if isinstance(record, SummarizationRecord) and not climb.is_new_summary:
            # No summary could be made: the same span is pruned instead.
            dropping = strategy_named("drop")
            bench.tokens_to_free, bench.is_after_rehydration = 1 << 60, False
            for drop in dropping.analyze(bench, proposal.units):
                dropped = yield from dropping.execute(replace(drop, reason="summarizer failed: pruning only"), bench)
                climb.records.append(dropped)
            climb.gone.update(unit.first for unit in proposal.units)
            return
        climb.records.append(record)
        if isinstance(record, ClearRecord):
            climb.cleared_tokens += proposal.estimated_tokens_freed
        else:
            climb.gone.update(unit.first for unit in proposal.units)
        if isinstance(record, ExternalizationRecord):
            climb.pointer_tokens += job.counting.message(Message("assistant", pointer_text(record)))


def _bench(
    job: Job, current: Draft, messages: Sequence[Message], counts: Sequence[int], step: int, climb: Climb
) -> Workbench:
    session = job.session
    assert session.codec is not None
    kept = {index for unit in (*current.partition.pinned, *current.partition.recent) for index in unit.indices}
    visible = [message for index, message in enumerate(messages) if index in kept]
    originals = {message.id or "": found for message in messages if (found := session.thread.get(message.id or ""))}

    def summarize(span_messages: Sequence[Message], span: SpanReference) -> Steps[tuple[StructuredSummary, int]]:
        return (yield from remember(job, current, climb, span_messages, span, visible, step))

    return Workbench(
        session_id=session.session_id,
        messages=messages,
        counts=counts,
        sizes=current.sizes,
        originals=originals,
        outputs=session.codec.outputs,
        policy=job.policy,
        turns=turns_of(messages, session.view),
        count_text=job.counting.text,
        now=events.iso(job.clock()),
        tokens_to_free=0,
        durability=job.durability,
        artifact_store=job.artifact_store,
        security_context=job.security_context,
        is_after_rehydration=job.is_after_rehydration,
        summarize=summarize if current.summary_tokens else None,
    )


def turns_of(messages: Sequence[Message], view: Sequence[Message]) -> list[int]:
    """The user turn of the whole conversation that each message belongs to, from 1."""
    turn_by_id: dict[str | None, int] = {}
    turn = 0
    for message in view:
        turn += message.role == "user"
        turn_by_id[message.id] = max(1, turn)
    numbers: list[int] = []
    for message in messages:
        # An output that normalising added is in no log: it belongs to the call before it.
        numbers.append(turn_by_id.get(message.id, numbers[-1] if numbers else 1))
    return numbers
