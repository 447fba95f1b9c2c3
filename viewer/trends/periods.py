"""Time ranges, and how they are divided into the bars of a chart. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from viewer.rest import BadFilter

HOUR = timedelta(hours=1)
RANGES: Mapping[str, tuple[timedelta, timedelta, str]] = {
    "24h": (timedelta(hours=24), HOUR, "24 hours"),
    "7d": (timedelta(days=7), timedelta(hours=6), "7 days"),
    "30d": (timedelta(days=30), timedelta(days=1), "30 days"),
    "90d": (timedelta(days=90), timedelta(days=3), "90 days"),
}
DEFAULT_RANGE = "24h"
MAX_BUCKETS = 1_000
_MAX_DAYS = 400
_YEARS = range(1970, 2200)


@dataclass(frozen=True, slots=True)
class Period:
    """A time range in whole hours, divided into buckets of equal length."""

    since: datetime
    until: datetime
    bucket: timedelta
    name: str = ""

    @property
    def bucket_hours(self) -> int:
        return int(self.bucket / HOUR)

    @property
    def bucket_label(self) -> str:
        """The unit of a rate: hour, 6 hours, day."""
        if self.bucket == HOUR:
            return "hour"
        if self.bucket == timedelta(days=1):
            return "day"
        return f"{self.bucket_hours} hours" if self.bucket.days < 1 else f"{self.bucket.days} days"

    @property
    def has_days(self) -> bool:
        """True if the axis shows days instead of hours."""
        return self.until - self.since > timedelta(days=2)

    @property
    def starts(self) -> list[datetime]:
        """The start of each bucket."""
        count = -(-(self.until - self.since) // self.bucket)
        return [self.since + number * self.bucket for number in range(count)]

    def index(self, hour: datetime) -> int:
        return (hour - self.since) // self.bucket


def last(name: str, now: datetime) -> Period:
    """Return the range with this name that ends with the current hour. Unknown names are the default."""
    if name not in RANGES:
        name = DEFAULT_RANGE
    length, bucket, _ = RANGES[name]
    until = _floor(now, bucket) + bucket
    return Period(until - length, until, bucket, name)


def _check_range(since: datetime, until: datetime) -> None:
    if until <= since:
        raise BadFilter("until", "The end must be after the start.")
    if until - since > timedelta(days=_MAX_DAYS):
        raise BadFilter("since", f"The range is longer than {_MAX_DAYS} days.")


def parse(query: Mapping[str, Any], now: datetime) -> Period:
    """Return the range of a query: `since` and `until`, or a named `range`. `bucket` is in hours."""
    text_since, text_until = str(query.get("since") or ""), str(query.get("until") or "")
    name = str(query.get("range") or "")
    if name and name not in RANGES:
        raise BadFilter("range", f"Use one of {', '.join(RANGES)}.")
    if not text_since and not text_until:
        period = last(name, now)
        hours = _bucket_hours(query, period.bucket_hours)
        return Period(period.since, period.until, timedelta(hours=hours), period.name)
    until = _time("until", text_until) if text_until else now
    since = _floor(_time("since", text_since), HOUR) if text_since else _floor(until, HOUR) - timedelta(days=1)
    _check_range(since, until)
    until = _floor(until, HOUR) + HOUR if until != _floor(until, HOUR) else until
    hours = _bucket_hours(query, max(1, -(-int((until - since) / HOUR) // 60)))
    if (until - since) / timedelta(hours=hours) > MAX_BUCKETS:
        raise BadFilter("bucket", f"The range has more than {MAX_BUCKETS:,} buckets.")
    return Period(since, until, timedelta(hours=hours))


def _bucket_hours(query: Mapping[str, Any], default: int) -> int:
    text = str(query.get("bucket") or "")
    hours = {"": default, "hour": 1, "day": 24}.get(text)
    if hours is None:
        hours = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
    if hours < 1:
        raise BadFilter("bucket", "Use `hour`, `day` or a number of hours.")
    return hours


def _time(name: str, text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise BadFilter(name, "Enter a time in ISO 8601.") from None
    if time.year not in _YEARS:
        raise BadFilter(name, f"Enter a time between {_YEARS.start} and {_YEARS.stop}.")
    return time


def _floor(time: datetime, step: timedelta) -> datetime:
    """Round down to a multiple of `step` since the beginning of the year 2000, a Saturday."""
    start = datetime(2000, 1, 1, tzinfo=UTC)
    return start + (time - start) // step * step
