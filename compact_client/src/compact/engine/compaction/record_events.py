"""The events of what a compaction did to messages: one per record, and a warning of results that no call can repeat."""

from __future__ import annotations

from collections.abc import Sequence

from compact import events
from compact.planning.plan import ClearRecord, CompactionRecord, DropRecord, ExternalizationRecord, SummarizationRecord

_RECORD_EVENTS: dict[type[CompactionRecord], tuple[type[events.RecordEvent], str]] = {
    ExternalizationRecord: (events.ExternalizedEvent, "externalize"),
    SummarizationRecord: (events.SummarizedEvent, "summarize"),
    ClearRecord: (events.ClearedEvent, "clear"),
    DropRecord: (events.DroppedEvent, "drop"),
}


def warn_of_evicted_results(check: events.CheckSpan, message_ids: Sequence[str]) -> None:
    """Warn that non-replayable tool results left the prompt."""
    if not message_ids:
        return
    text = f"{_plural(len(message_ids), 'non-replayable tool result')} did not fit the budget and left the prompt"
    details = events.MessageDetails(message_ids=list(message_ids))
    check.emit(events.WarningEvent(severity="high", code="irreplaceable_compacted", message=text, details=details))


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def record_event(record: CompactionRecord, tokens_by_id: dict[str, int]) -> events.RecordEvent:
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
