"""What a compaction did, as events.

Sent after the plan is committed, so that nothing is announced that did not happen.
"""

from __future__ import annotations

from collections.abc import Sequence

from compact import events
from compact.engine.job import Climb, Job
from compact.engine.ledger import after_ledger, fate_counts
from compact.engine.session import Session
from compact.planning.draft import Draft
from compact.planning.plan import ClearRecord, CompactionRecord, DropRecord, ExternalizationRecord, SummarizationRecord


def announce(job: Job, current: Draft, climb: Climb, after_tokens: int) -> None:
    session, check = job.session, job.check
    plan = session.plan
    assert plan is not None
    if not check.has_listeners:
        return
    kinds: dict[type[CompactionRecord], tuple[type[events.RecordEvent], str]] = {
        ExternalizationRecord: (events.ExternalizedEvent, "externalize"),
        SummarizationRecord: (events.SummarizedEvent, "summarize"),
        ClearRecord: (events.ClearedEvent, "clear"),
        DropRecord: (events.DroppedEvent, "drop"),
    }
    tokens = {entry.id: entry.tokens for entry in plan.ledger}
    for record in climb.records:
        event, strategy = kinds[type(record)]
        artifact_id = record.artifact_id if isinstance(record, ExternalizationRecord) else None
        check.emit(
            event(
                strategy=strategy,
                span=events.span_properties(record.span),
                tokens_freed=sum(tokens.get(message_id, 0) for message_id in record.span.message_ids),
                details=events.ArtifactDetails(artifact_id=artifact_id) if artifact_id else {},
            )
        )
    check.emit(
        events.PrunedMessagesEvent(
            step=plan.step,
            layers=layer_counts(session, current),
            pruned_count=sum(record.span.message_count for record in climb.records if _removes(record)),
            tokens_before=job.tokens_before,
            tokens_after=after_tokens,
            breakdown_after=session.breakdown_of(after_tokens) if session.breakdown_of else None,
            plan_version=plan.version,
            cache=plan.cache.to_dict() if plan.cache else None,
            fates=fate_counts(plan),
            ledger=[entry.to_dict() for entry in plan.ledger],
            after=after_ledger(job),
        )
    )


def warn_of_irreplaceable(check: events.CheckSpan, ids: Sequence[str]) -> None:
    """Say which results left the prompt that no tool can give again."""
    if not ids:
        return
    text = f"{len(ids)} tool results that cannot be had again were compacted: the budget could not hold them"
    details = {"message_ids": list(ids)}
    check.emit(events.WarningEvent(severity="high", code="irreplaceable_compacted", message=text, details=details))


def _removes(record: CompactionRecord) -> bool:
    return not isinstance(record, ClearRecord)


def layer_counts(session: Session, current: Draft) -> events.LayerCounts:
    """How many messages each layer of the new request holds."""
    pinned = sum(len(unit.indices) for unit in current.partition.pinned)
    summaries = sum((message.id or "").startswith(("summary-v", "span-")) for message in session.request.messages)
    return {"pinned": pinned, "summary": summaries, "recent": len(session.request.messages) - pinned - summaries}
