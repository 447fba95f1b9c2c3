"""Summarize a span, merge the result with the session's summary, and check what it retains.

Every new summary passes the retention check, which restores standing instructions that the summarizer lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from compact import events
from compact.engine.compaction.drafts import DraftTerms
from compact.engine.compaction.summarizer_call import SummarizerCall, SummaryRequest
from compact.engine.effects import Steps
from compact.engine.session import Session
from compact.messages import Message, RedactedMessage
from compact.messages.span import SpanReference
from compact.planning.draft import Draft
from compact.planning.plan import ExternalizationRecord, SummarizationRecord
from compact.planning.strategies import SpanSummary
from compact.reading.summary_blocks import ParsedMessages
from compact.rendering.base import pointer_text, recall_line, span_text, with_recall_line
from compact.summarizers import RetentionReport, fit, restore_lost_facts
from compact.summary.entries import ArtifactReference
from compact.summary.structured_summary import StructuredSummary

if TYPE_CHECKING:
    from compact.engine.engine import Engine

# The largest part of a summary that may list artifacts. The conversation itself matters more.
_ARTIFACTS_PCT = 0.15


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


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """A summarizer's answer and everything that it covers. It may have cost money, so it can be used again."""

    content: StructuredSummary
    call: SummarizerCall
    covered_ids: frozenset[str]
    """The messages in it, and those that had left the prompt before."""


@dataclass(frozen=True, slots=True)
class PromptSummary:
    """The session's summary as the prompt shows it."""

    content: StructuredSummary | None = None
    text: str | None = None
    tokens: int = 0
    is_new: bool = False
    """True if this compaction wrote it."""
    missing_constraints: int = 0
    """Number of standing instructions of the user that did not fit."""
    report: SummaryReport | None = None
    """The events of a new summary, if anyone listens."""
    written: WrittenSummary | None = None
    """The answer of the summarizer."""


class SummaryUpdate:
    """Updates the session's summary for one draft.

    Where spans keep their own summaries, those of earlier spans stay visible, and only the new span's is written.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        check: events.CheckSpan,
        draft: Draft,
        terms: DraftTerms,
        *,
        step: int,
        reusable: WrittenSummary | None = None,
    ) -> None:
        self._engine = engine
        self._check = check
        self._draft = draft
        self._terms = terms
        self._step = step
        self._reusable = reusable
        self._log = session.thread
        self._redaction = session.redaction
        self._plan = terms.plan
        self._keeps_spans = terms.keeps_spans(draft)
        self._current = self._plan.session_summary if self._plan else None
        self._previous = None if self._keeps_spans else self._current
        self._count_text = terms.counter.text
        self._count_message = terms.counter.message

    def carry_over(self) -> PromptSummary:
        """Return the summary the session has now. It takes no room if a new one is shown beside it."""
        plan = self._plan
        if plan is None or plan.session_summary is None:
            return PromptSummary()
        tokens = 0 if self._keeps_spans else self._count_message(plan.summary_text or "")
        return PromptSummary(plan.session_summary, plan.summary_text, tokens)

    def shorten(self, summary: PromptSummary) -> PromptSummary:
        """Fit an old summary into the room there is now, and list the artifacts of folded pointers in it."""
        limit = max(0, self._draft.summary_tokens - self._overhead_tokens)
        content = self._with_artifacts(summary.content or StructuredSummary(), summary.content, limit)
        if content.is_empty and content.reserve is None:
            return replace(summary, content=None, text=None, tokens=0)
        content = fit(content, max_tokens=limit, count_tokens=self._count_text)
        if content.is_empty:
            # No room now, but a later compaction may have some.
            return replace(summary, content=content, text=None, tokens=0)
        text = self._render(content)
        return replace(summary, content=content, text=text, tokens=self._count_message(text))

    def write(
        self, messages: Sequence[RedactedMessage], span: SpanReference, visible: Sequence[RedactedMessage]
    ) -> Steps[tuple[PromptSummary, SpanSummary] | None]:
        """Summarize a span. Return the session's new summary and the span's own, or None if there is none.

        A summary of truncated outputs alone that says nothing counts as none.
        """
        started = self._engine.clock()
        freed_tokens = self._pointer_tokens()
        limit = max(0, self._max_tokens(freed_tokens) - self._overhead_tokens)
        request = self._request(messages, span, visible)
        written = self._covering_summary(span, limit) or (yield from self._call_summarizer(request, limit))
        if written is None:
            return None
        new, call = written.content, written.call
        merged = self._merge(new, request, limit, call)
        if merged.is_empty and not self._draft.partition.remainder:
            return None
        max_tokens = self._draft.limits.budget_tokens - self._draft.pinned_tokens - self._draft.recent_tokens
        retained = self._check_retention(merged, request, limit, max_tokens + freed_tokens - self._overhead_tokens)
        merged = retained.summary
        summary = self._to_prompt(merged, span, len(retained.missing_constraints))
        summary = replace(summary, written=written)
        own = new.part_of(span) if call.continues_summary and self._previous is not None else new
        content = merged if self._terms.renderer.keeps_spans else own
        span_summary = SpanSummary(content, self._count_text(content.render_as_message()))
        if self._check.has_listeners:
            report = self._report(call, summary, retained, request.messages, started)
            summary = replace(summary, report=report)
        return summary, span_summary

    def _request(
        self, messages: Sequence[RedactedMessage], span: SpanReference, visible: Sequence[RedactedMessage]
    ) -> SummaryRequest:
        # Aborted calls were added by normalization and say nothing.
        source = ParsedMessages([message for message in messages if not (message.id or "").startswith("aborted-")])
        return SummaryRequest(
            source,
            span,
            self._with_span_summaries(visible),
            self._previous_message(),
            replace(self._previous, artifacts=()) if self._previous is not None else None,
        )

    def _call_summarizer(self, request: SummaryRequest, limit: int) -> Steps[WrittenSummary | None]:
        call = SummarizerCall(
            self._engine.summarizer,
            policy=self._terms.policy,
            count_text=self._count_text,
            check=self._check,
            redaction=self._redaction,
            fallback=self._engine.fallback_summarizer,
        )
        content = yield from call.summarize(request, max_tokens=limit - self._artifact_tokens(limit))
        if content is None:
            return None
        return WrittenSummary(content, call, self._covered_ids(message.id or "" for message in request.messages))

    def _covering_summary(self, span: SpanReference, limit: int) -> WrittenSummary | None:
        """Return the summary of a compaction that could not be committed, if it has all of this one and fits."""
        written = self._reusable
        if written is None or not self._covered_ids(span.message_ids) <= written.covered_ids:
            return None
        return written if written.call.fits(written.content, limit - self._artifact_tokens(limit)) else None

    def _covered_ids(self, message_ids: Iterable[str]) -> frozenset[str]:
        absorbed = self._plan.absorbed if self._plan else ()
        return frozenset((*message_ids, *(entry.id for entry in absorbed)))

    def _max_tokens(self, freed_tokens: int) -> int:
        """Return the summary's limit. Pointers that fold into the summary give it their room."""
        limit = self._draft.summary_tokens
        return max(limit, min(self._terms.policy.summary_max_tokens, limit + freed_tokens))

    def _pointer_tokens(self) -> int:
        """Return the tokens of pointers that the draft keeps but a new summary replaces."""
        if self._plan is None or self._draft.folds_replacements:
            return 0
        return sum(self._count_message(pointer_text(record)) for record in self._open_pointers())

    def _open_pointers(self) -> list[ExternalizationRecord]:
        """Return the pointers of the plan that are not part of a summary."""
        return [record for record in self._plan.externalizations if not record.is_folded] if self._plan else []

    def _artifact_tokens(self, limit: int) -> int:
        """Return the room to reserve for the artifact list. Fitting the summary again later would lose more."""
        summary = self._with_artifacts(StructuredSummary(), self._previous, limit)
        if not summary.artifacts:
            return 0
        return self._count_text(summary.render_as_message())

    def _with_span_summaries(self, visible: Sequence[RedactedMessage]) -> Sequence[RedactedMessage]:
        if self._plan is None or not self._keeps_spans:
            return visible
        return [*visible, *(self._redaction.protect_text(span_text(record)) for record in self._plan.summarizations)]

    def _previous_message(self) -> RedactedMessage | None:
        """Return the current summary for a summarizer that rewrites it."""
        if self._plan is None or self._keeps_spans or not self._plan.summary_text:
            return None
        return self._redaction.protect_text(self._plan.summary_text, "previous-summary")

    def _merge(
        self, new: StructuredSummary, request: SummaryRequest, limit: int, call: SummarizerCall
    ) -> StructuredSummary:
        """Merge a new summary with the previous one, unless it replaces that."""
        merged = self._with_artifacts(new, self._previous, limit)
        if call.is_custom:
            return merged
        if self._previous is not None and not call.continues_summary:
            merged = replace(self._previous, artifacts=()).merge(merged)
        return fit(merged, max_tokens=limit, visible=request.visible, count_tokens=self._count_text)

    def _with_artifacts(
        self, summary: StructuredSummary, previous: StructuredSummary | None, limit: int
    ) -> StructuredSummary:
        """Add the artifacts of the previous summary and of pointers that fold into this one, newest first.

        Artifacts beyond their share of the summary are left out. The plan still knows them, and they are rehydrated
        when the agent asks for them.
        """
        artifacts = [*(previous.artifacts if previous else ())]
        for pointer in self._open_pointers():
            artifacts += pointer.summary.artifacts
        known = {artifact.artifact_id: artifact for artifact in artifacts}
        if not known:
            return summary
        listed: list[ArtifactReference] = []
        room_tokens = int(limit * _ARTIFACTS_PCT)
        for artifact in reversed(known.values()):
            line = StructuredSummary(artifacts=(artifact,)).render_as_message()
            room_tokens -= self._count_text(line)
            if room_tokens < 0:
                break
            listed.append(artifact)
        others = (artifact for artifact in summary.artifacts if artifact.artifact_id not in known)
        return replace(summary, artifacts=(*reversed(listed), *others))

    def _check_retention(
        self, summary: StructuredSummary, request: SummaryRequest, limit: int, max_tokens: int
    ) -> RetentionReport:
        """Restore what the summary must not lose, if need be beyond its limit."""
        report = self._retention_report(summary, request, limit)
        if report.is_blocking and max_tokens > limit:
            return self._retention_report(summary, request, max_tokens)
        return report

    def _retention_report(
        self, summary: StructuredSummary, request: SummaryRequest, max_tokens: int
    ) -> RetentionReport:
        return restore_lost_facts(
            request.messages,
            [*request.visible, Message("assistant", summary.render(version=1))],
            summary,
            max_tokens=max_tokens,
            count_tokens=self._count_text,
            previous=self._current,
        )

    def _to_prompt(self, merged: StructuredSummary, span: SpanReference, missing_constraints: int) -> PromptSummary:
        """Return the session's new summary, with the tokens of what the renderer shows."""
        content = self._current.merge(merged) if self._keeps_spans and self._current is not None else merged
        text = self._render(content)
        is_of_span = self._terms.renderer.keeps_spans
        shown_text = with_recall_line(span_text(SummarizationRecord(span, merged)), text) if is_of_span else text
        # Counting by line uses cached lines, and it caches the text for the message that follows.
        self._count_text(shown_text)
        tokens = self._count_message(shown_text)
        return PromptSummary(content, text, tokens, True, missing_constraints)

    def _render(self, content: StructuredSummary) -> str:
        text = self._terms.renderer.summary_text(content, self._step)
        name = self._engine.recall_tool_name
        return f"{text}\n{recall_line(name)}" if name else text

    @property
    def _overhead_tokens(self) -> int:
        """The tokens around the summary's text: the framing of the message, and the line about recall."""
        name = self._engine.recall_tool_name
        return self._count_message("") + (self._count_text(f"\n{recall_line(name)}") if name else 0)

    def _report(
        self,
        call: SummarizerCall,
        summary: PromptSummary,
        retained: RetentionReport,
        source: Sequence[RedactedMessage],
        started: datetime,
    ) -> SummaryReport:
        step, redaction, ended = self._step, self._redaction, self._engine.clock()
        originals = (self._log.get(message.id or "") or message for message in source)
        input_tokens = self._engine.counter.count_messages(originals)
        created = events.SummaryCreatedEvent(
            strategy=call.style,
            version=step,
            step=step,
            input_messages=len(source),
            input_tokens=input_tokens,
            summary_tokens=summary.tokens,
            compression_ratio=round(summary.tokens / input_tokens, 4) if input_tokens else 0.0,
            latency_ms=round((ended - started).total_seconds() * 1000, 3),
            summarizer=call.name,
            model=call.model,
            summary=redaction.text(summary.text) if summary.text else None,
            structured=redaction.tree(replace(retained.summary, mentions=(), reserve=None).to_dict()),
        )
        return SummaryReport(
            created, self._retention_event(retained), self._lost_instructions(retained), started, ended
        )

    def _retention_event(self, report: RetentionReport) -> events.RetentionEvent:
        redaction = self._redaction
        return events.RetentionEvent(
            step=self._step,
            facts_total=report.total_count(),
            facts_kept=report.kept_count(),
            goals_total=report.total_count("goal"),
            goals_kept=report.kept_count("goal"),
            decisions_total=report.total_count("decision"),
            decisions_kept=report.kept_count("decision"),
            open_items_total=report.total_count("open_item"),
            open_items_kept=report.kept_count("open_item"),
            files_total=report.total_count("file"),
            files_kept=report.kept_count("file"),
            weighted_retention=report.weighted_retention,
            by_kind=report.by_kind,
            lost=redaction.trees(fact.to_dict() for fact in report.lost),
            restored=redaction.trees(fact.to_dict() for fact in report.restored),
        )

    def _lost_instructions(self, report: RetentionReport) -> events.WarningEvent | None:
        if not report.is_blocking:
            return None
        missing = report.missing_constraints
        first = self._redaction.text(missing[0])
        text = f"Standing instructions that did not fit into the summary: {len(missing)}. First: {first}"
        return events.WarningEvent(severity="high", code="constraint_lost", message=text)
