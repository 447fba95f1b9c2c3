"""Count the facts of a retention check: how many were found, and how many are still in the prompt.

Pure. Pages, REST, session aggregates and alarms all use this count. Clients also report a weighted share, in which
facts that only a tool showed weigh less. It can be far from the count, so it is only used where a count is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

LOSSY_SHARE = 0.9
"""A compaction that kept a smaller share of its facts raises the alarm."""
_INT_MAX = 2**31 - 1


FACT_KINDS: Final = ("goal", "constraint", "decision", "open_item", "file", "id", "number", "path")


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
    """Return the facts of a retention event, or None if it does not count them.

    Newer clients send `facts_total` and `facts_kept`. Older ones send only the counts by kind.
    """
    total, kept = _count(data.get("facts_total")), _count(data.get("facts_kept"))
    if total is not None and kept is not None:
        return FactCount(total, min(kept, total))
    by_kind = data.get("by_kind")
    if not isinstance(by_kind, Mapping):
        return None
    kinds = [counts for counts in by_kind.values() if isinstance(counts, Mapping)]
    if not kinds:
        return None
    total = min(_INT_MAX, sum(_count(counts.get("found")) or 0 for counts in kinds))
    return FactCount(total, min(total, sum(map(_count_kept, kinds))))


def count_facts_by_kind(data: Mapping[str, Any]) -> dict[str, FactCount]:
    """Return the facts of each known kind that a retention event counts."""
    by_kind = data.get("by_kind")
    if not isinstance(by_kind, Mapping):
        return {}
    return {
        kind: FactCount(_count(counts.get("found")) or 0, _count_kept(counts))
        for kind in FACT_KINDS
        if isinstance(counts := by_kind.get(kind), Mapping)
    }


def weighted_share(data: Mapping[str, Any]) -> float | None:
    """Return the client's weighted share. Older clients call it `retention_pct`."""
    value = data.get("weighted_retention")
    share = data.get("retention_pct") if value is None else value
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        return None
    return float(share)


def _count_kept(counts: Mapping[str, Any]) -> int:
    """Return the facts of one kind that were not lost."""
    total, lost = _count(counts.get("found")) or 0, _count(counts.get("lost"))
    if lost is not None:
        return max(0, total - lost)
    return min(total, (_count(counts.get("kept")) or 0) + (_count(counts.get("restored")) or 0))


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _INT_MAX else None
