"""Costs of stored usage with the prices of a project.

Callers have checked that the reader has access to the sessions. Prices are applied here, on read, so that an override
or a newer price table also applies to stored sessions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from uuid import UUID

from django.utils import timezone

from ingest.cells import cells_of
from ingest.models import HourlyUsage, Session
from ingest.models import Usage as StoredUsage
from viewer.costs.amounts import Cost, FindRates, Usage, price
from viewer.costs.prices import Rates, published_rates
from viewer.models import PriceOverride

_KEY = ("hour", "model", "provider", "is_summary", "prompt_size")
_SUMS = ("call_count", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
# Calls without a time are stored at the start of 2000, and have today's price.
_FIRST_HOUR = datetime(2000, 1, 2, tzinfo=UTC)


def project_rates(project_id: int) -> FindRates:
    """Return the function that finds rates for a project: its overrides, else the published prices."""
    overrides = _overrides(project_id)

    def find(model: str, provider: str, at: datetime, prompt_size: int) -> Rates | None:
        override = overrides.get(model.lower())
        if override is not None:
            return override
        if at < _FIRST_HOUR:
            at = timezone.now().replace(minute=0, second=0, microsecond=0)
        return published_rates(model, provider, at, prompt_size)

    return find


def _overrides(project_id: int) -> Mapping[str, Rates]:
    return {
        override.model: Rates.per_million(
            input_price=override.input_price,
            output_price=override.output_price,
            cached_price=override.cached_price,
            write_price=override.cache_write_price,
        )
        for override in PriceOverride.objects.filter(project_id=project_id)
    }


def session_cost(session: Session) -> Cost:
    return session_costs(session.project_id, [session.session_key]).get(session.session_key, Cost())


def session_costs(project_id: int, keys: Iterable[UUID]) -> dict[UUID, Cost]:
    """Return the costs of several sessions of a project in one query. Sessions without usage are missing."""
    rows = StoredUsage.objects.filter(cell__in=cells_of(project_id), session_key__in=list(keys), call_count__gt=0)
    usages: dict[UUID, list[Usage]] = defaultdict(list)
    for key, *values in rows.values_list("session_key", *_KEY, *_SUMS):
        usages[key].append(Usage(*values))
    find_rates = project_rates(project_id) if usages else published_rates
    return {key: price(session_usages, find_rates) for key, session_usages in usages.items()}


def costs_over_time(
    project_id: int, since: datetime, until: datetime, bucket_of: Callable[[datetime], int], *, model: str | None = None
) -> dict[int, Cost]:
    """Return the costs of a project by the bucket of their hour. `model` limits them to calls of one model."""
    calls = HourlyUsage.objects.filter(cell__in=cells_of(project_id), hour__gte=since, hour__lt=until, call_count__gt=0)
    if model is not None:
        calls = calls.filter(model=model)
    buckets: dict[int, list[Usage]] = defaultdict(list)
    for values in calls.values_list(*_KEY, *_SUMS):
        buckets[bucket_of(values[0])].append(Usage(*values))
    find_rates = project_rates(project_id)
    return {bucket: price(usages, find_rates) for bucket, usages in buckets.items()}


def recent_models(project_id: int, *, limit: int = 200) -> list[tuple[str, str]]:
    """Return the models and providers of a project's newest usage, for the page of prices."""
    newest = HourlyUsage.objects.filter(cell__in=cells_of(project_id), call_count__gt=0).order_by("-hour")
    pairs = newest.values_list("model", "provider")[: limit * 25]
    return sorted(set(pairs))[:limit]
