"""The rates that the cost of a compaction is computed with."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from ingest.decoding.span_stats import stats_of
from ingest.decoding.token_usage import prompt_size
from ingest.models import Session
from viewer.compactions.cost import CompactionRates
from viewer.costs.amounts import Cost, FindRates, ModelCost
from viewer.kinds import DECISION, DISCARDED_SUMMARY, ESTIMATE, SUMMARY
from viewer.sessions.checks import Check


def compaction_rates(session: Session, check: Check, cost: Cost, find: FindRates) -> CompactionRates | None:
    """Return the rates of a compaction, or None if the price of the agent's model is unknown.

    `cost` is the cost of the session. Its calls name the provider and tell whether the provider caches prompts.
    """
    model = _model(session, check)
    call = _calls_of(model, cost)
    at = _hour(check.started_at)
    provider = call.provider if call else ""
    before = find(model, provider, at, prompt_size(check.before))
    after = find(model, provider, at, prompt_size(check.after or 0))
    if before is None or after is None:
        return None
    summary_model = _summary_model(check)
    return CompactionRates(
        model=model,
        before=before,
        after=after,
        summary_model=summary_model,
        summary=find(summary_model, "", at, 0) if summary_model else None,
        # Without reported calls, assume a cache: that is what the providers of priced models do by default.
        is_cached=call is None or call.cached > 0,
    )


def _model(session: Session, check: Check) -> str:
    for kind in (ESTIMATE, DECISION):
        span = check.span(kind)
        if span is not None and (model := stats_of(kind, dict(span.data)).model):
            return model
    return session.model


def _summary_model(check: Check) -> str:
    """Return the model of the summarizer, or an empty string for one without a model."""
    for span in check.spans_of(SUMMARY, DISCARDED_SUMMARY):
        usage = stats_of(span.kind, dict(span.data)).usage
        if usage is not None:
            return usage.model
    return ""


def _calls_of(model: str, cost: Cost) -> ModelCost | None:
    """Return the agent's calls of this model, of the provider with most calls."""
    calls = [entry for entry in cost.models if entry.model == model and not entry.is_summary]
    return max(calls, key=lambda entry: entry.calls, default=None)


def _hour(at: datetime | None) -> datetime:
    return (at or timezone.now()).replace(minute=0, second=0, microsecond=0)
