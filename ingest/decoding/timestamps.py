"""Times as microseconds since 2000, which is how Postgres stores them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def to_microseconds(moment: datetime) -> int:
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def to_datetime(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else EPOCH + timedelta(microseconds=microseconds)


# An agent's clock may be wrong by years, but not by centuries.
MIN_US = to_microseconds(datetime(1970, 1, 1, tzinfo=UTC))
END_US = to_microseconds(datetime(2200, 1, 1, tzinfo=UTC))
# Unix seconds below this are in range without further checks.
MAX_UNIX_S = (END_US - MIN_US) / 1_000_000 - 1


def is_in_range(microseconds: int) -> bool:
    """True if a time lies between the years 1970 and 2200."""
    return MIN_US <= microseconds < END_US


def from_unix(value: float) -> int:
    """Convert Unix seconds, or milli-, micro- or nanoseconds, which are recognized by their size."""
    if value > 1e11:
        # As seconds, these values would be after the year 5000.
        value /= 1e9 if value > 1e17 else 1e6 if value > 1e14 else 1e3
    return round(value * 1_000_000) + MIN_US


def from_text(text: str) -> int:
    """Convert an ISO 8601 time, UTC if it has no offset, or a Unix time written as text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return from_unix(float(text))
    return to_microseconds(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def from_nanoseconds(nanoseconds: int) -> int:
    """Convert Unix nanoseconds."""
    return nanoseconds // 1000 + MIN_US
