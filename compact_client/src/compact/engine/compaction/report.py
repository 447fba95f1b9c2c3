"""The events of a compaction that was committed: its summary, what was truncated, each record, and the ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from compact import events
from compact.engine.compaction.ladder import Ladder
from compact.engine.compaction.ledger import fate_counts, prompt_entries
from compact.engine.compaction.summary_update import PromptSummary
from compact.engine.session import Candidate, Session
from compact.engine.truncation import Truncation
from compact.events.phrases import format_count
from compact.messages import Message
from compact.planning.plan import ClearRecord, CompactionRecord, DropRecord, ExternalizationRecord, SummarizationRecord

_RECORD_EVENTS: dict[type[CompactionRecord], tuple[type[events.RecordEvent], str]] = {
    ExternalizationRecord: (events.ExternalizedEvent, "externalize"),
    SummarizationRecord: (events.SummarizedEvent, "summarize"),
    ClearRecord: (events.ClearedEvent, "clear"),
    DropRecord: (events.DroppedEvent, "drop"),
}


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a compaction, for the events that describe them after the commit."""

    summary: PromptSummary
    records: Sequence[CompactionRecord]
    truncations: Mapping[str, Truncation]
    """The messages that it truncated, by message id."""
    evicted_ids: Sequence[str]
    """Non-replayable results that left the prompt."""
    pinned_count: int

    @classmethod
    def of(cls, ladder: Ladder) -> Changes:
        """Return what a ladder did to its prompt."""
        prompt = ladder.prompt
        evicted = [prompt.messages[index] for unit in ladder.draft.evicted for index in unit.indices]
        return cls(
            ladder.summary,
            ladder.records,
            prompt.truncations,
            [message.id or "" for message in evicted if message.answers],
            sum(len(unit.indices) for unit in ladder.draft.partition.pinned),
        )


def discard_summary(check: events.CheckSpan, summary: PromptSummary, reason: str) -> None:
    """Report that the prompt does not contain a summary that was written for it."""
    if summary.report is not None:
        summary.report.emit_discarded(check, reason)


def report_changes(
    check: events.CheckSpan,
    session: Session,
    candidate: Candidate,
    changes: Changes,
    *,
    tokens_before: int,
    breakdown_after: Mapping[str, int],
) -> None:
    """Emit what a committed compaction did."""
    plan, request, records = candidate.plan, candidate.request, changes.records
    if changes.summary.report is not None:
        changes.summary.report.emit(check)
    _report_truncations(check, changes.truncations.values(), {message.id for message in request.messages})
    tokens_by_id = {entry.id: entry.tokens for entry in plan.ledger}
    for record in records:
        check.emit(_record_event(record, tokens_by_id))
    removals = [record for record in records if not isinstance(record, ClearRecord)]
    check.emit(
        events.PrunedMessagesEvent(
            step=plan.step,
            layers=_layer_counts(request.messages, changes.pinned_count),
            pruned_count=sum(record.span.message_count for record in removals),
            tokens_before=tokens_before,
            tokens_after=candidate.tokens_after,
            breakdown_after=breakdown_after,
            plan_version=plan.version,
            cache=plan.cache.to_dict() if plan.cache else None,
            fates=fate_counts(plan.ledger),
            ledger=[entry.to_dict() for entry in plan.ledger],
            after=prompt_entries(session.redaction, request),
        )
    )


def warn_of_evicted_results(check: events.CheckSpan, message_ids: Sequence[str]) -> None:
    """Warn that non-replayable tool results left the prompt."""
    if not message_ids:
        return
    text = f"{format_count(len(message_ids), 'non-replayable tool result')} did not fit the budget and left the prompt"
    details = events.MessageDetails(message_ids=list(message_ids))
    check.emit(events.WarningEvent(severity="high", code="irreplaceable_compacted", message=text, details=details))


def _report_truncations(
    check: events.CheckSpan, truncations: Iterable[Truncation], shown_ids: Collection[str | None]
) -> None:
    """Emit the messages that stay truncated. Others have left the prompt since."""
    for truncation in truncations:
        if truncation.message_id in shown_ids:
            check.emit(truncation.to_event())


def _record_event(record: CompactionRecord, tokens_by_id: Mapping[str, int]) -> events.RecordEvent:
    """Return the event of a record. `tokens_by_id` has the tokens of each message before the compaction."""
    event, strategy = _RECORD_EVENTS[type(record)]
    details = events.ArtifactDetails()
    if isinstance(record, ExternalizationRecord):
        details = events.ArtifactDetails(artifact_id=record.artifact_id)
    return event(
        strategy=strategy,
        span=events.span_properties(record.span),
        tokens_freed=sum(tokens_by_id.get(message_id, 0) for message_id in record.span.message_ids),
        details=details,
    )


def _layer_counts(messages: Sequence[Message], pinned_count: int) -> events.LayerCounts:
    summaries = sum((message.id or "").startswith(("summary-v", "span-")) for message in messages)
    return events.LayerCounts(pinned=pinned_count, summary=summaries, recent=len(messages) - pinned_count - summaries)
