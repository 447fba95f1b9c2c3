"""Limit how much work each project and key may have in the write queue, in seconds of measured capacity.

A fixed number of records would be too low for one machine and too high for another. The writer reports how long its
commits take, and a project that already has `max_s` seconds of work in the queue gets a 429 with the time to wait.
"""

from __future__ import annotations

import math
import time
from collections import Counter

from ingest.errors import RateLimited

# Before anything was measured: less than two cores store (tests/bench/ingest/README.md).
_INITIAL_RECORDS_PER_S = 8_000.0
# Fixed costs dominate smaller groups, so they say little about the capacity.
_MIN_OBSERVED_RECORDS = 200
_MIN_RECORDS_PER_S = 1_000.0
_WEIGHT = 0.1
# Another key of the same project still finds room.
_KEY_SHARE = 0.75
# A single event of another project waits for at most two groups.
_GROUP_S = 0.008
_MIN_GROUP_RECORDS = 100
_ACTIVE_S = 10.0


class Backlog:
    """Records in the queue, by project and by key, and the rate at which they are stored."""

    def __init__(self, max_s: float) -> None:
        self._max_s = max_s
        self._by_project: Counter[int] = Counter()
        self._by_key: Counter[int] = Counter()
        self._last_used: dict[int, float] = {}
        self.records_per_s = _INITIAL_RECORDS_PER_S

    def require_room(self, project_id: int, key_id: int) -> None:
        """Raise `RateLimited` if the project or the key has too much work in the queue."""
        max_records = self.records_per_s * self._max_s
        for owner, pending, limit in (
            ("project", self._by_project[project_id], max_records),
            ("key", self._by_key[key_id], max_records * _KEY_SHARE),
        ):
            if pending > limit:
                wait_s = max(1, math.ceil(pending / self.records_per_s))
                raise RateLimited(
                    f"{pending:,} records of this {owner} wait to be stored. Retry after {wait_s} s.",
                    retry_after_s=wait_s,
                )

    def add(self, project_id: int, key_id: int, records: int) -> None:
        self._by_project[project_id] += records
        self._by_key[key_id] += records
        self._last_used[project_id] = time.monotonic()

    def remove(self, project_id: int, key_id: int, records: int) -> None:
        for counter, owner in ((self._by_project, project_id), (self._by_key, key_id)):
            counter[owner] -= records
            if counter[owner] <= 0:
                del counter[owner]

    def observe(self, records: int, seconds: float) -> None:
        """Update the capacity after a commit."""
        if records >= _MIN_OBSERVED_RECORDS and seconds > 0:
            rate = (1 - _WEIGHT) * self.records_per_s + _WEIGHT * records / seconds
            self.records_per_s = max(rate, _MIN_RECORDS_PER_S)

    @property
    def has_several_projects(self) -> bool:
        """True if more than one project wrote in the last seconds."""
        if len(self._last_used) > 1:
            oldest = time.monotonic() - _ACTIVE_S
            self._last_used = {project_id: at for project_id, at in self._last_used.items() if at > oldest}
        return len(self._last_used) > 1

    def group_records(self, max_records: int) -> int:
        """Return the number of records that one commit stores in a short time."""
        return int(min(max_records, max(_MIN_GROUP_RECORDS, self.records_per_s * _GROUP_S)))
