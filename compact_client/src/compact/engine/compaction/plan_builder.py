"""Build the new plan of a session from its old one and the records of a compaction. Pure functions over data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from compact import events
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

if TYPE_CHECKING:
    from compact.engine.compaction.compaction import Compaction
    from compact.engine.compaction.ladder import Ladder
    from compact.engine.compaction.summary_update import PromptSummary

R = TypeVar("R", bound=CompactionRecord)


def build_plan(compaction: Compaction, ladder: Ladder) -> CompactionPlan:
    """Return the plan that adds the ladder's records to the session's current plan."""
    session, draft, records = compaction.session, ladder.draft, ladder.records
    old = session.plan
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
    renderer = compaction.engine.policy.renderer
    return CompactionPlan(
        thread_id=session.session_id,
        thread_version=session.thread.version,
        created_at=events.iso(compaction.engine.clock()),
        version=session.next_plan_version,
        step=compaction.step,
        renderer=renderer,
        trigger=compaction.trigger,
        externalizations=(*externalizations, *_of_type(records, ExternalizationRecord)),
        summarizations=summarizations,
        clearings=(*(old.clearings if old else ()), *_of_type(records, ClearRecord)),
        drops=drops,
        session_summary=ladder.summary.content,
        summary_text=ladder.summary.text,
        lead_ids=_lead_ids(compaction, draft),
        original_token_count=compaction.tokens_before,
        learned_window=session.shared.learned_window,
        growth_tokens=tuple(session.growth),
    )


def _earlier_spans(plan: CompactionPlan | None, ladder: Ladder) -> tuple[SummarizationRecord, ...]:
    """Return the spans of earlier compactions."""
    if plan is None:
        return ()
    if ladder.extended_span is None:
        return plan.summarizations
    return (*plan.summarizations[:-1], ladder.extended_span)


def _lead_ids(compaction: Compaction, draft: Draft) -> tuple[str, ...]:
    """Return the ids of the messages before the summary: the pinned layer, in order.

    The bridge renderer has user messages there instead of tool groups.
    """
    partition = draft.partition
    is_bridge = compaction.engine.policy.renderer == "bridge"
    units = [unit for unit in partition.pinned_layer if not (is_bridge and unit.kind == "tool")]
    if is_bridge:
        units += [unit for unit in partition.recent if unit.kind == "user" and unit.last < partition.window_start]
    return tuple(compaction.messages[index].id or "" for unit in units for index in unit.indices)


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
