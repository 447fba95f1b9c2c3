"""Count the facts of a retention check: how many were found, and how many are still in the prompt.

Pure. Pages, REST, session aggregates and alarms all use this count. Clients also report a weighted share, in which
facts that only a tool showed weigh less. It can be far from the count, so it is only used where a count is missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from compact.events import FACT_KINDS, RetentionEvent
from compact.events.reading import found_count, kept_count, upgrade

LOSSY_SHARE = 0.9
"""A compaction that kept a smaller share of its facts raises the alarm."""
_INT_MAX = 2**31 - 1


class FactCount(NamedTuple):
    """The facts of the removed messages. A fact that the check put back into the summary is kept."""

    total: int
    kept: int

    @property
    def lost(self) -> int:
        return self.total - self.kept

    @property
    def share(self) -> float:
        return self.kept / self.total if self.total else 1.0

    @property
    def is_lossy(self) -> bool:
        return self.share < LOSSY_SHARE


def count_facts(data: Mapping[str, Any]) -> FactCount | None:
    """Return the facts of a retention event, or None if it does not count them."""
    data = upgrade(RetentionEvent.name, data)
    total, kept = _count(data.get("facts_total")), _count(data.get("facts_kept"))
    return None if total is None or kept is None else FactCount(total, min(kept, total))


def count_facts_by_kind(data: Mapping[str, Any]) -> dict[str, FactCount]:
    """Return the facts of each known kind that a retention event counts."""
    by_kind = data.get("by_kind")
    if not isinstance(by_kind, Mapping):
        return {}
    return {
        kind: FactCount(found_count(counts), kept_count(counts))
        for kind in FACT_KINDS
        if isinstance(counts := by_kind.get(kind), Mapping)
    }


def weighted_share(data: Mapping[str, Any]) -> float | None:
    """Return the client's weighted share."""
    share = upgrade(RetentionEvent.name, data).get("weighted_retention")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        return None
    return float(share)


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(int(value), _INT_MAX) if 0 <= value < math.inf else None
