"""The events of a summary, which are sent once it is known whether the prompt contains the summary."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from compact import events


@dataclass(frozen=True, slots=True)
class SummaryReport:
    """The events of one summary. The times are those of the summarizer."""

    created: events.SummaryCreatedEvent
    retention: events.RetentionEvent
    lost_instructions: events.WarningEvent | None
    started: datetime
    ended: datetime

    def emit(self, check: events.CheckSpan) -> None:
        """Report that the prompt contains the summary, and what it kept."""
        if self.lost_instructions is not None:
            check.emit(self.lost_instructions)
        check.emit(self.retention)
        check.emit(self.created, started=self.started, ended=self.ended)

    def emit_discarded(self, check: events.CheckSpan, reason: str) -> None:
        """Report that the summary is not used. Nothing was lost with it, but a model may have cost money."""
        created = self.created
        event = events.SummaryDiscardedEvent(
            strategy=created.strategy,
            reason=reason,
            input_messages=created.input_messages,
            input_tokens=created.input_tokens,
            summary_tokens=created.summary_tokens,
            latency_ms=created.latency_ms,
            summarizer=created.summarizer,
            model=created.model,
        )
        check.emit(event, started=self.started, ended=self.ended)
