"""Make the summary of a span, merge it with what is remembered, and guard the result.

A summary leaves here only after the guard has looked for what it must hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from compact import events
from compact.engine.effects import Steps
from compact.engine.job import Climb, Job
from compact.engine.summary_attempts import SummaryMaker
from compact.messages import Message
from compact.messages.span import SpanReference
from compact.planning.draft import Draft
from compact.planning.plan import SummarizationRecord
from compact.rendering import get_renderer
from compact.rendering.base import pointer_text
from compact.rendering.inplace import span_text
from compact.summarizers import retention
from compact.summarizers.extraction.summary_blocks import ParsedMessages
from compact.summarizers.extraction.summary_builder import fit
from compact.summary.entries import ArtifactReference
from compact.summary.structured_summary import StructuredSummary

_ARTIFACTS_PCT = 0.15  # of a summary: what was said is worth more than where outputs lie


def remember(
    job: Job,
    current: Draft,
    climb: Climb,
    span_messages: Sequence[Message],
    span: SpanReference,
    visible: Sequence[Message],
    step: int,
) -> Steps[tuple[StructuredSummary, int]]:
    """Summarise a span, merge it with what is remembered, and guard the result.

    Where earlier spans keep summaries of their own, this one stands beside them: they are visible, and nothing is
    merged into what is shown.
    """
    plan = job.session.plan
    keeps_spans = job.keeps_spans(current)
    remembered = plan.session_summary if plan else None
    previous = None if keeps_spans else remembered
    if plan is not None and keeps_spans:
        visible = [*visible, *(Message("assistant", span_text(record)) for record in plan.summarizations)]
    maker = SummaryMaker(job.summarizer, policy=job.policy, count_text=job.counting.draft, check=job.check)
    started = job.clock()
    freed = _freed_by_folding(job, current)
    limit = max(current.summary_tokens, min(job.policy.summary_max_tokens, current.summary_tokens + freed))
    real = ParsedMessages([message for message in span_messages if not (message.id or "").startswith("aborted-")])
    # Left free for their names: a summary that has to be cut again loses more than they take.
    named = _naming_artifacts(job, StructuredSummary(), previous, limit)
    names_tokens = job.counting.draft(named.render_as_message()) if named.artifacts else 0
    summary = yield from maker.make(
        real,
        span,
        max_tokens=limit - names_tokens,
        visible=visible,
        previous=plan.summary_text if plan and not keeps_spans else None,
    )
    if summary is None:
        return StructuredSummary(span=span), 0
    merged = _naming_artifacts(job, summary, previous, limit)
    if previous is not None and not maker.is_custom:
        merged = replace(previous, artifacts=()).merge(merged)
    renderer = get_renderer(job.policy.renderer)
    if not maker.is_custom:
        merged = fit(merged, max_tokens=limit, visible=visible, count_tokens=job.counting.draft)
    most = current.limits.budget_tokens - current.pinned_tokens - current.recent_tokens + freed
    merged = _guarded(job, climb, merged, real, visible, limit, most, step)
    climb.summary = remembered.merge(merged) if keeps_spans and remembered is not None else merged
    climb.is_new_summary = True
    climb.summary_text = renderer.summary_text(climb.summary, step)
    shown = SummarizationRecord(span, merged) if job.policy.renderer == "inplace" else None
    shown_text = span_text(shown) if shown else climb.summary_text
    job.counting.draft(shown_text)  # by its lines, which are known; the message below holds the same text
    climb.summary_tokens = job.counting.message(Message("assistant", shown_text))
    own = merged if shown else summary
    own_tokens = job.counting.draft(own.render_as_message())
    if job.check.has_listeners:
        _announce(job, climb, maker, merged, real, step, started)
    return own, own_tokens


def _announce(
    job: Job,
    climb: Climb,
    maker: SummaryMaker,
    summary: StructuredSummary,
    messages: Sequence[Message],
    step: int,
    started: datetime,
) -> None:
    input_tokens = sum(job.counting.message(message) for message in messages)
    job.check.emit(
        events.SummaryCreatedEvent(
            strategy=maker.style,
            version=step,
            step=step,
            input_messages=len(messages),
            input_tokens=input_tokens,
            summary_tokens=climb.summary_tokens,
            compression_ratio=round(climb.summary_tokens / input_tokens, 4) if input_tokens else 0.0,
            latency_ms=round((job.clock() - started).total_seconds() * 1000, 3),
            summarizer=maker.name,
            model=maker.model,
            summary=job.outbound.apply_hook(climb.summary_text),
            structured=job.outbound.apply_hook(summary.to_dict()),
        ),
        started=started,
    )


def refit(job: Job, current: Draft, climb: Climb, step: int) -> None:
    """Where no new summary was made, cut what is remembered to the room there is now; folded pointers go into it."""
    limit = current.summary_tokens
    summary = _naming_artifacts(job, climb.summary or StructuredSummary(), climb.summary, limit)
    if not limit or summary.is_empty:
        climb.summary, climb.summary_text, climb.summary_tokens = None, None, 0
        return
    climb.summary = fit(summary, max_tokens=limit, count_tokens=job.counting.text)
    climb.summary_text = get_renderer(job.policy.renderer).summary_text(climb.summary, step)
    climb.summary_tokens = job.counting.message(Message("assistant", climb.summary_text))


def _freed_by_folding(job: Job, current: Draft) -> int:
    """Tokens of pointers that were planned to stay and go, because a new summary takes them in."""
    plan = job.session.plan
    if plan is None or current.folds_replacements:
        return 0
    pointers = [pointer_text(record) for record in plan.externalizations if not record.is_folded]
    return sum(job.counting.message(Message("assistant", text)) for text in pointers)


def _naming_artifacts(
    job: Job, summary: StructuredSummary, previous: StructuredSummary | None, limit: int
) -> StructuredSummary:
    """The summary with the artifacts that the one before it named and those whose pointers fold into it now.

    The newest that fit their share of it: of older ones the plan still knows, and they come back when asked for.
    """
    plan = job.session.plan
    pointers = [record for record in plan.externalizations if not record.is_folded] if plan else []
    known = {artifact.artifact_id: artifact for artifact in previous.artifacts} if previous else {}
    known |= {artifact.artifact_id: artifact for record in pointers for artifact in record.summary.artifacts}
    if not known:
        return summary
    named: list[ArtifactReference] = []
    left = int(limit * _ARTIFACTS_PCT)
    for artifact in reversed(known.values()):
        left -= job.counting.draft(StructuredSummary(artifacts=(artifact,)).render_as_message())
        if left < 0:
            break
        named.append(artifact)
    rest = (artifact for artifact in summary.artifacts if artifact.artifact_id not in known)
    return replace(summary, artifacts=(*reversed(named), *rest))


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
    if report.is_blocking and most > limit:
        report = _report(job, summary, removed, visible, most)
    climb.missing_constraints = len(report.missing_constraints)
    if report.is_blocking:
        first = job.outbound.apply_hook(report.missing_constraints[0])
        text = f"{len(report.missing_constraints)} standing instructions did not fit: {first}"
        job.check.emit(events.WarningEvent(severity="high", code="constraint_lost", message=text))
    job.check.emit(
        events.RetentionEvent(
            step=step,
            retention_pct=report.retention_pct,
            by_kind=report.by_kind,
            lost=job.outbound.apply_hook([finding.to_dict() for finding in report.lost]),
            restored=job.outbound.apply_hook([finding.to_dict() for finding in report.restored]),
        )
    )
    return report.summary


def _report(
    job: Job, summary: StructuredSummary, removed: Sequence[Message], visible: Sequence[Message], limit: int
) -> retention.RetentionReport:
    plan = job.session.plan
    return retention.check(
        removed,
        [*visible, Message("assistant", summary.render(version=1))],
        summary,
        max_tokens=limit,
        count_tokens=job.counting.draft,
        previous=plan.session_summary if plan else None,
    )
