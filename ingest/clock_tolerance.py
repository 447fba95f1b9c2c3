"""Times that a clock which was ahead has stored.

When the clock is right again, such a time is in the future. Whatever waits for it, or lasts until it, would do so for
as long as the clock was wrong.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone

# Clocks of machines with NTP differ by milliseconds, those without by minutes.
MAX_SKEW = timedelta(hours=1)


def latest_time() -> datetime:
    """Return the latest time that a clock which is right may have stored."""
    return timezone.now() + MAX_SKEW
