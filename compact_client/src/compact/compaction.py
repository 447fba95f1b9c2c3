"""One compaction, in the order of its effects.

Draft, archive, climb the ladder, summarise, guard, commit, render. Nothing is changed until the plan is committed:
a failure before that leaves the session as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compact import events, guard
from compact.archive import archive_summary, archive_transcript
from compact.counting import Counting
from compact.effects import Steps
from compact.exceptions import InsufficientBudget, PlanConflict
from compact.extraction.compose import fit
from compact.holding import irreplaceable_ids
from compact.ledger import absorbed_by, after_ledger, build_ledger, cache_effect, fate_counts
from compact.messages import Message
from compact.outbound import Outbound
from compact.plan import (
    ClearRecord,
    CompactionPlan,
    CompactionRecord,
    DropRecord,
    ExternalizationRecord,
    SummarizationRecord,
)
from compact.planner import Draft, Room, draft
from compact.policy import CompactPolicy
from compact.renderers import renderer_named
from compact.session import Session
from compact.span import SpanReference
from compact.strategies import Workbench, strategy_named
from compact.strategies.externalize import POINTER_TOKENS
from compact.summarizing import SummaryMaker
from compact.summary import StructuredSummary
from compact.units import Unit, group_units

_FIT_ATTEMPTS = 4
AIM_PCT = 0.57  # document 000: by hand a compaction frees at least 40 % where it can


@dataclass(slots=True)
class Job:
    """One compaction of one session: what it works on and with."""

    session: Session
    policy: CompactPolicy
    counting: Counting
    check: events.Check
    outbound: Outbound
    clock: events.Clock
    room: Room
    """The limits in our own tokens; `budget_tokens` is the limit as the caller counts."""
    budget_tokens: int
    fixed_tokens: int
    """Tools, instructions, schema and priming: sent with every request."""
    tokens_before: int
    estimate: Callable[[], int]
    """The current request's tokens as the caller's estimator and the provider's usage see them."""
    shorten: Callable[[Message], Message]
    summarizer: Any
    storage: Any = None
    is_archive_required: bool = True
    artifact_store: Any = None
    plan_store: Any = None
    security_context: Any = None
    durability: Mapping[str, Any] = field(default_factory=dict)
    is_manual: bool = False
    is_after_rehydration: bool = False


@dataclass(slots=True)
class Climb:
    """What the ladder has done so far."""

    records: list[CompactionRecord] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    summary: StructuredSummary | None = None
    summary_text: str | None = None
    summary_tokens: int = 0
    is_new_summary: bool = False
    missing_constraints: int = 0
    """Standing instructions of a user that the summary had no room for."""
    cleared_tokens: int = 0
    """What clearing freed inside units that stay."""


def compact(job: Job, first: Draft, messages: Sequence[Message], counts: Sequence[int]) -> Steps[bool]:
    """Compact the session's request; True if its plan changed. Raises `InsufficientBudget`."""
    session = job.session
    if not first.part.remainder and not _has_long_summary(job, first):
        return False
    step = (session.plan.step if session.plan else _named_step(session.view)) + 1
    yield from archive_transcript(job, step)
    plan_before, request_before = session.plan, session.request
    current, room = first, job.room
    for attempt in range(1, _FIT_ATTEMPTS + 1):
        climb = yield from _climb(job, current, messages, counts, step)
        if climb.missing_constraints and current.part.keep_turns > 0:
            current, climb = yield from _with_more_room(job, current, climb, messages, counts, step)
        plan = _plan(job, current, climb, messages, counts, step)
        session.plan = plan
        _render(job)
        after = job.estimate()
        if after <= job.budget_tokens:
            break
        # Our counts and the caller's differ, or the summary came out long: aim lower and draft again.
        session.plan, session.request = plan_before, request_before
        room = room.scaled(min(0.97, job.budget_tokens / after * 0.97))
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
    _warn_of_released(job, current, messages)
    _announce(job, current, climb, request_before.messages, after)
    yield from archive_summary(job, step)
    return True


def _with_more_room(
    job: Job, current: Draft, climb: Climb, messages: Sequence[Message], counts: Sequence[int], step: int
) -> Steps[tuple[Draft, Climb]]:
    """A standing instruction did not fit: give the summary the room of all but the newest unit."""
    try:
        lower = draft_again(job, messages, counts, job.room, only_newest=True)
    except InsufficientBudget:
        return current, climb
    again = yield from _climb(job, lower, messages, counts, step)
    return (lower, again) if again.missing_constraints < climb.missing_constraints else (current, climb)


def draft_again(
    job: Job, messages: Sequence[Message], counts: Sequence[int], room: Room, *, only_newest: bool = False
) -> Draft:
    return draft(
        messages,
        counts,
        policy=job.policy,
        room=room,
        fixed_tokens=job.fixed_tokens,
        covered_tokens=covered_tokens(job.session),
        carried_tokens=carried_tokens(job.session, job.policy),
        protected_ids=job.session.protected_ids,
        irreplaceable_ids=_irreplaceable(job, messages, counts),
        only_newest=only_newest,
        aim_tokens=int(AIM_PCT * (sum(counts) + job.fixed_tokens)) if job.is_manual else None,
    )


def _irreplaceable(job: Job, messages: Sequence[Message], counts: Sequence[int]) -> set[str]:
    """The results to hold: all that cannot be had again, but for those that the first rung will write to the store."""
    found = irreplaceable_ids(messages, job.durability)
    is_stored = job.artifact_store is not None and "externalize" in job.policy.ladder
    if not found or not is_stored or job.is_after_rehydration:
        return found
    large = (unit for unit in group_units(messages) if sum(counts[index] for index in unit.indices) > POINTER_TOKENS)
    return found.difference(messages[index].id or "" for unit in large for index in unit.indices)


def _warn_of_released(job: Job, current: Draft, messages: Sequence[Message]) -> None:
    if not current.released:
        return
    ids = [messages[index].id for unit in current.released for index in unit.indices if messages[index].answers]
    text = f"{len(ids)} tool results that cannot be had again were compacted: the budget could not hold them"
    details = {"message_ids": ids}
    job.check.emit(
        events.WARNING,
        {"severity": "high", "code": "irreplaceable_compacted", "message": text, "details": details},
    )


def plannable(session: Session) -> tuple[list[Message], list[int]]:
    """The request's own messages: without the summaries, pointers and openings a renderer puts in."""
    messages, counts = [], []
    for message, tokens in zip(session.request.messages, session.request.counts, strict=True):
        if (message.id or "").startswith(("m", "aborted-")):
            messages.append(message)
            counts.append(tokens)
    return messages, counts


def covered_tokens(session: Session) -> int:
    """Tokens that earlier compactions of this session took out of the prompt."""
    if session.plan is None:
        return 0
    return sum(entry.tokens for entry in session.plan.absorbed)


def carried_tokens(session: Session, policy: CompactPolicy) -> int:
    """Tokens of earlier span summaries that stay as they are; the other shapes merge them into one."""
    if policy.renderer != "inplace":
        return 0
    request = session.request
    return sum(
        tokens
        for message, tokens in zip(request.messages, request.counts, strict=True)
        if (message.id or "").startswith("span-")
    )


def _named_step(view: Sequence[Message]) -> int:
    """The number of a summary that an earlier process left in the history."""
    numbers = [0]
    for message in view:
        if message.is_summary:
            digits = message.text[len("<COMPACT-SUMMARY v") :].partition(">")[0]
            numbers.append(int(digits) if digits.isdigit() else 0)
    return max(numbers)


def _climb(job: Job, current: Draft, messages: Sequence[Message], counts: Sequence[int], step: int) -> Steps[Climb]:
    climb = Climb()
    _carry_summary(job, climb)
    kept = current.pinned_tokens + current.recent_tokens
    target = 0 if job.is_manual else job.room.target_tokens
    bench = _bench(job, current, messages, counts, step, climb)
    for name in job.policy.ladder:
        remaining = [unit for unit in current.part.remainder if unit.first not in climb.gone]
        if not remaining:
            break
        used = kept + climb.summary_tokens + sum(bench.tokens(unit) for unit in remaining) - climb.cleared_tokens
        if climb.records and used <= target:
            break
        bench.tokens_to_free = max(1, used - target)
        yield from _rung(job, name, bench, remaining, climb)
    remaining = [unit for unit in current.part.remainder if unit.first not in climb.gone]
    used = kept + climb.summary_tokens + sum(bench.tokens(unit) for unit in remaining) - climb.cleared_tokens
    if remaining and used > job.room.budget_tokens:
        # The loop breaker or the ladder itself left too much: the budget is not negotiable.
        bench.tokens_to_free, bench.is_after_rehydration = used - job.room.budget_tokens, False
        yield from _rung(job, "drop", bench, remaining, climb)
    _cut_carried_summary(job, current, climb, step)
    return climb


def _carry_summary(job: Job, climb: Climb) -> None:
    """Start from the summary there is; a new one will replace it."""
    plan = job.session.plan
    if plan is not None and plan.session_summary is not None:
        climb.summary, climb.summary_text = plan.session_summary, plan.summary_text
        climb.summary_tokens = job.counting.message(Message("assistant", plan.summary_text or ""))


def _cut_carried_summary(job: Job, current: Draft, climb: Climb, step: int) -> None:
    """Where no new summary was made, the old one must still fit the room there is now."""
    if climb.is_new_summary or climb.summary is None or not _has_long_summary(job, current):
        return
    if not current.summary_tokens:
        climb.summary, climb.summary_text, climb.summary_tokens = None, None, 0
        return
    climb.summary = fit(climb.summary, max_tokens=current.summary_tokens, count_tokens=job.counting.text)
    climb.summary_text = renderer_named(job.policy.renderer).summary_text(climb.summary, step)
    climb.summary_tokens = job.counting.message(Message("assistant", climb.summary_text))


def _has_long_summary(job: Job, current: Draft) -> bool:
    plan = job.session.plan
    return bool(plan and plan.summary_text and job.counting.text(plan.summary_text) > max(current.summary_tokens, 1))


def _rung(job: Job, name: str, bench: Workbench, remaining: Sequence[Unit], climb: Climb) -> Steps[None]:
    strategy = strategy_named(name)
    for proposal in strategy.analyze(bench, remaining):
        job.check.emit(
            events.PROPOSAL_GENERATED,
            {
                "strategy": name,
                "span": _span_properties(proposal.span),
                "tokens_freed": proposal.estimated_tokens_freed,
                "details": {"reason": proposal.reason},
            },
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


def _bench(
    job: Job, current: Draft, messages: Sequence[Message], counts: Sequence[int], step: int, climb: Climb
) -> Workbench:
    session = job.session
    kept = {index for unit in (*current.part.pinned, *current.part.recent) for index in unit.indices}
    visible = [message for index, message in enumerate(messages) if index in kept]
    originals = {message.id or "": found for message in messages if (found := session.thread.get(message.id or ""))}

    def summarize(span_messages: Sequence[Message], span: SpanReference) -> Steps[tuple[StructuredSummary, int]]:
        return (yield from _summarize(job, current, climb, span_messages, span, visible, step))

    return Workbench(
        session_id=session.session_id,
        messages=messages,
        counts=counts,
        originals=originals,
        policy=job.policy,
        turns=turn_numbers(messages),
        count_text=job.counting.text,
        now=events.iso(job.clock()),
        tokens_to_free=0,
        durability=job.durability,
        artifact_store=job.artifact_store,
        security_context=job.security_context,
        is_after_rehydration=job.is_after_rehydration,
        summarize=summarize if current.summary_tokens else None,
    )


def _summarize(
    job: Job,
    current: Draft,
    climb: Climb,
    span_messages: Sequence[Message],
    span: SpanReference,
    visible: Sequence[Message],
    step: int,
) -> Steps[tuple[StructuredSummary, int]]:
    """Summarise a span, merge it with what is remembered, and guard the result."""
    plan = job.session.plan
    previous = plan.session_summary if plan else None
    maker = SummaryMaker(job.summarizer, policy=job.policy, count_text=job.counting.text, check=job.check)
    started = job.clock()
    limit = current.summary_tokens
    real = [message for message in span_messages if not (message.id or "").startswith("aborted-")]
    summary = yield from maker.make(
        real,
        span,
        max_tokens=limit,
        visible=visible,
        previous=plan.summary_text if plan else None,
    )
    if summary is None:
        return StructuredSummary(span=span), 0
    merged = summary if previous is None or maker.is_custom else previous.merge(summary)
    renderer = renderer_named(job.policy.renderer)
    if not maker.is_custom:
        merged = _fitted(merged, limit, visible, job.counting.text)
    most = job.room.budget_tokens - current.pinned_tokens - current.recent_tokens
    merged = _guarded(job, climb, merged, real, visible, limit, most, step)
    climb.summary, climb.is_new_summary = merged, True
    climb.summary_text = renderer.summary_text(merged, step)
    climb.summary_tokens = job.counting.message(Message("assistant", climb.summary_text))
    own_tokens = job.counting.text(summary.render_as_message())
    input_tokens = sum(job.counting.message(message) for message in real)
    job.check.emit(
        events.SUMMARY_CREATED,
        {
            "strategy": maker.style,
            "version": step,
            "step": step,
            "input_messages": len(real),
            "input_tokens": input_tokens,
            "summary_tokens": climb.summary_tokens,
            "compression_ratio": round(climb.summary_tokens / input_tokens, 4) if input_tokens else 0.0,
            "latency_ms": round((job.clock() - started).total_seconds() * 1000, 3),
            "summarizer": maker.name,
            "model": maker.model,
        },
        payload={"summary": climb.summary_text, "structured": merged.to_dict()},
        started=started,
    )
    return summary, own_tokens


def _fitted(
    summary: StructuredSummary, max_tokens: int, visible: Sequence[Message], count_text: Callable[[str], int]
) -> StructuredSummary:
    return fit(summary, max_tokens=max_tokens, visible=visible, count_tokens=count_text)


def _guarded(
    job: Job,
    climb: Climb,
    summary: StructuredSummary,
    removed: Sequence[Message],
    visible: Sequence[Message],
    limit: int,
    most: int,
    step: int,
) -> StructuredSummary:
    """Check what the summary kept of the messages it replaces, and put back what must not be lost."""
    report = _report(job, summary, removed, visible, limit)
    if report.blocks and most > limit:
        report = _report(job, summary, removed, visible, most)
    climb.missing_constraints = len(report.missing_constraints)
    if report.blocks:
        text = f"{len(report.missing_constraints)} standing instructions did not fit: {report.missing_constraints[0]}"
        job.check.emit(events.WARNING, {"severity": "high", "code": "constraint_lost", "message": text})
    job.check.emit(
        events.RETENTION,
        {"step": step, "retention_pct": report.retention_pct, "by_kind": report.by_kind},
        payload={
            "lost": [finding.to_dict() for finding in report.lost],
            "restored": [finding.to_dict() for finding in report.restored],
        },
    )
    return report.summary


def _report(
    job: Job, summary: StructuredSummary, removed: Sequence[Message], visible: Sequence[Message], limit: int
) -> guard.GuardReport:
    plan = job.session.plan
    return guard.check(
        removed,
        [*visible, Message("assistant", summary.render(version=1))],
        summary,
        max_tokens=limit,
        count_tokens=job.counting.text,
        previous=plan.session_summary if plan else None,
    )


def turn_numbers(messages: Sequence[Message]) -> list[int]:
    """The user turn each message belongs to, from 1."""
    numbers, turn = [], 0
    for message in messages:
        if message.role == "user":
            turn += 1
        numbers.append(max(1, turn))
    return numbers


def _plan(
    job: Job, current: Draft, climb: Climb, messages: Sequence[Message], counts: Sequence[int], step: int
) -> CompactionPlan:
    before = job.session.plan
    bridge = job.policy.renderer == "bridge"
    lead = [unit for unit in current.part.pinned if not (bridge and unit.kind == "tool")]
    if bridge:
        lead += [unit for unit in current.part.recent if unit.kind == "user"]
    lead_ids = [messages[index].id or "" for unit in lead for index in unit.indices]
    return CompactionPlan(
        thread_id=job.session.session_id,
        thread_version=job.session.thread.version,
        created_at=events.iso(job.clock()),
        version=max(job.session.plans, default=0) + 1,
        step=step,
        renderer=job.policy.renderer,
        externalizations=_externalizations(before, climb, fold=climb.is_new_summary),
        summarizations=_of(before, "summarizations") + _new(climb, SummarizationRecord),
        clearings=_of(before, "clearings") + _new(climb, ClearRecord),
        drops=_of(before, "drops") + _new(climb, DropRecord),
        session_summary=climb.summary,
        summary_text=climb.summary_text,
        lead_ids=tuple(lead_ids),
        original_token_count=job.tokens_before,
    )


def _of(plan: CompactionPlan | None, name: str) -> tuple[Any, ...]:
    return getattr(plan, name) if plan else ()


def _new(climb: Climb, kind: type) -> tuple[Any, ...]:
    return tuple(record for record in climb.records if isinstance(record, kind))


def _externalizations(before: CompactionPlan | None, climb: Climb, *, fold: bool) -> tuple[ExternalizationRecord, ...]:
    """Earlier pointers move into the summary that is made now; new ones stand on their own."""
    earlier = tuple(replace(record, is_folded=True) if fold else record for record in _of(before, "externalizations"))
    return earlier + _new(climb, ExternalizationRecord)


def _render(job: Job) -> None:
    job.session.render(count=job.counting.message, shorten=job.shorten, protected_flag=job.policy.protected_flag)


def _commit(job: Job, plan_before: CompactionPlan | None) -> Steps[None]:
    session = job.session
    plan = session.plan
    assert plan is not None
    if job.plan_store is not None:
        expected = session.store_version
        committed = yield lambda: job.plan_store.commit_plan(session.session_id, plan, expected)
        if not committed:
            session.plan = plan_before
            _render(job)
            raise PlanConflict(f"another process committed a plan for {session.session_id!r} after version {expected}")
        session.store_version = expected + 1
    session.plans[plan.version] = plan


def _announce(job: Job, current: Draft, climb: Climb, before: Sequence[Message], after_tokens: int) -> None:
    session, check = job.session, job.check
    plan = session.plan
    assert plan is not None
    if not check.is_watched:
        return
    names = {
        ExternalizationRecord: (events.EXTERNALIZED, "externalize"),
        SummarizationRecord: (events.SUMMARIZED, "summarize"),
        ClearRecord: (events.CLEARED, "clear"),
        DropRecord: (events.DROPPED, "drop"),
    }
    tokens = {entry.id: entry.tokens for entry in plan.ledger}
    for record in climb.records:
        event, strategy = names[type(record)]
        check.emit(
            event,
            {
                "strategy": strategy,
                "span": _span_properties(record.span),
                "tokens_freed": sum(tokens.get(message_id, 0) for message_id in record.span.message_ids),
                "details": {"artifact_id": record.artifact_id} if isinstance(record, ExternalizationRecord) else {},
            },
        )
    check.emit(
        events.PRUNED_MESSAGES,
        {
            "step": plan.step,
            "layers": layer_counts(session, current),
            "pruned_count": sum(record.span.message_count for record in climb.records if _removes(record)),
            "tokens_before": job.tokens_before,
            "tokens_after": after_tokens,
            "breakdown_after": session.breakdown_of(after_tokens) if session.breakdown_of else None,
            "plan_version": plan.version,
            "cache": plan.cache.to_dict() if plan.cache else None,
            "fates": fate_counts(plan),
        },
        payload={
            "ledger": [entry.to_dict() for entry in plan.ledger],
            "after": after_ledger(job),
        },
    )


def _removes(record: CompactionRecord) -> bool:
    return not isinstance(record, ClearRecord)


def layer_counts(session: Session, current: Draft) -> dict[str, int]:
    """How many messages each layer of the new request holds."""
    pinned = sum(len(unit.indices) for unit in current.part.pinned)
    summaries = sum((message.id or "").startswith(("summary-v", "span-")) for message in session.request.messages)
    return {"pinned": pinned, "summary": summaries, "recent": len(session.request.messages) - pinned - summaries}


def _span_properties(span: SpanReference) -> dict[str, Any]:
    return {
        "first_turn": span.first_turn,
        "last_turn": span.last_turn,
        "message_count": span.message_count,
        "start_message_id": span.start_message_id,
        "end_message_id": span.end_message_id,
    }
