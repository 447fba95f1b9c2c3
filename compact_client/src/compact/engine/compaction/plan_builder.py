"""Build the new plan of a session from its old one and the records of a compaction. Pure functions over data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from compact.engine.compaction.drafts import DraftTerms
from compact.engine.compaction.ladder import Ladder
from compact.engine.compaction.ledger import absorbed_entries, build_ledger, cache_effect, full_hashes
from compact.engine.compaction.prompt import Prompt
from compact.engine.compaction.summary_update import PromptSummary
from compact.engine.session import Request, Session
from compact.messages.span import SpanReference
from compact.planning.draft import Draft
from compact.planning.log import AgentThread
from compact.planning.plan import (
    ClearRecord,
    CompactionPlan,
    CompactionRecord,
    DropRecord,
    ExternalizationRecord,
    SummarizationRecord,
)

R = TypeVar("R", bound=CompactionRecord)


def build_plan(
    session: Session,
    ladder: Ladder,
    terms: DraftTerms,
    *,
    step: int,
    trigger: str,
    tokens_before: int,
    created_at: str,
) -> CompactionPlan:
    """Return the plan that adds the ladder's records to the session's current plan."""
    prompt, draft, records, old = ladder.prompt, ladder.draft, ladder.records, terms.plan
    summarizations = (*_earlier_spans(old, ladder), *_of_type(records, SummarizationRecord))
    drops = (*(old.drops if old else ()), *_of_type(records, DropRecord))
    if draft.folds_replacements and summarizations:
        merged = _merge_spans(summarizations, ladder.summary, session.thread)
        summarizations = (merged,) if isinstance(merged, SummarizationRecord) else ()
        drops += (merged,) if isinstance(merged, DropRecord) else ()
    externalizations = old.externalizations if old else ()
    if ladder.summary.is_new or draft.folds_replacements:
        # Earlier pointers move into the new summary. Pointers of this compaction stay on their own.
        externalizations = tuple(replace(record, is_folded=True) for record in externalizations)
    return CompactionPlan(
        thread_id=session.session_id,
        thread_version=session.thread.version,
        created_at=created_at,
        version=session.next_plan_version,
        step=step,
        renderer=terms.renderer.name,
        trigger=trigger,
        externalizations=(*externalizations, *_of_type(records, ExternalizationRecord)),
        summarizations=summarizations,
        clearings=(*(old.clearings if old else ()), *_of_type(records, ClearRecord)),
        drops=drops,
        session_summary=ladder.summary.content,
        summary_text=ladder.summary.text,
        lead_ids=terms.renderer.lead_ids(draft.partition, prompt.messages),
        user_limits=_user_limits(old, draft, prompt),
        output_limits=_output_limits(old, draft, prompt),
        original_token_count=tokens_before,
        learned_window=session.shared.learned_window,
        growth_tokens=tuple(session.growth),
    )


def complete_plan(
    plan: CompactionPlan,
    session: Session,
    terms: DraftTerms,
    ladder: Ladder,
    after: Request,
    *,
    tokens_before: int,
    tokens_after: int,
) -> CompactionPlan:
    """Return a plan with its ledger and its effect on the prompt cache. `after` is the request under it."""
    before, redaction = session.request, session.redaction
    redaction.update(session.history)
    ledger = build_ledger(
        redaction,
        terms.renderer,
        ladder.draft,
        plan,
        before,
        truncated_ids=ladder.prompt.forms,
        ephemeral=ladder.ephemeral,
    )
    return replace(
        plan,
        ledger=ledger,
        absorbed=(*(terms.plan.absorbed if terms.plan else ()), *absorbed_entries(ledger, plan)),
        full_hashes=full_hashes(session, before, after),
        compacted_token_count=tokens_after,
        cache=cache_effect(before, after, tokens_before=tokens_before, tokens_after=tokens_after),
    )


def _earlier_spans(plan: CompactionPlan | None, ladder: Ladder) -> tuple[SummarizationRecord, ...]:
    """Return the spans of earlier compactions."""
    if plan is None:
        return ()
    if ladder.extended_span is None:
        return plan.summarizations
    return (*plan.summarizations[:-1], ladder.extended_span)


def _user_limits(plan: CompactionPlan | None, draft: Draft, prompt: Prompt) -> dict[str, int]:
    """Return the limit of each truncated user message that stays, also if an earlier compaction truncated it."""
    messages, partition = prompt.messages, draft.partition
    earlier = plan.user_limits if plan is not None else {}
    limits = {message_id: earlier[message_id] for message_id in _kept_ids(draft, prompt) if message_id in earlier}
    return {**limits, **{messages[index].id or "": limit for index, limit in partition.user_limits.items()}}


def _output_limits(plan: CompactionPlan | None, draft: Draft, prompt: Prompt) -> dict[str, int]:
    """Return the limit of each message that stays with excerpts of its outputs."""
    earlier = plan.output_limits if plan is not None else {}
    new = {message_id: item.excerpt_tokens for message_id, item in prompt.truncations.items()}
    limits = {message_id: new.get(message_id, earlier.get(message_id, 0)) for message_id in _kept_ids(draft, prompt)}
    return {message_id: limit for message_id, limit in limits.items() if limit}


def _kept_ids(draft: Draft, prompt: Prompt) -> list[str]:
    units = (*draft.partition.pinned, *draft.partition.recent)
    return [prompt.messages[index].id or "" for unit in units for index in unit.indices]


def _of_type(records: Sequence[CompactionRecord], kind: type[R]) -> tuple[R, ...]:
    return tuple(record for record in records if isinstance(record, kind))


def _merge_spans(
    records: Sequence[SummarizationRecord], summary: PromptSummary, thread: AgentThread
) -> SummarizationRecord | DropRecord:
    """Merge all summarized spans into one record. Without room for a summary, it is a drop."""
    order = {message.id: index for index, message in enumerate(thread)}
    ids = (message_id for record in records for message_id in record.span.message_ids)
    span = SpanReference(
        tuple(sorted(ids, key=lambda message_id: order.get(message_id, len(order)))),
        min(record.span.first_turn for record in records),
        max(record.span.last_turn for record in records),
    )
    if summary.content is None:
        return DropRecord(span, "no room for a summary")
    return SummarizationRecord(span, summary.content, summary.tokens)
