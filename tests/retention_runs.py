"""Runs of retention over the day for which it marks data before it deletes it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ingest.models import RetentionClock
from ingest.storage import retention, retention_clock
from ingest.storage.retention_clock import Clocks


def clocks_at(moment: datetime) -> Clocks:
    return Clocks(moment, moment)


def mark(since: datetime) -> datetime:
    """Run retention for a day, and return the time at which the next run deletes what was past retention before it."""
    RetentionClock.objects.get_or_create(defaults={"checked_at": since})
    moment, end = since, since + retention_clock.GRACE
    while moment < end:
        retention.run(clocks=clocks_at(moment))
        moment += retention_clock.MAX_STEP
    return end


def expire(since: datetime | None = None) -> retention.Report:
    """Mark what is past retention, delete it a day later, and return what the last run did."""
    return retention.run(clocks=clocks_at(mark(since or datetime.now(UTC))))


def expire_later(days: int) -> retention.Report:
    return expire(datetime.now(UTC) + timedelta(days=days))
