"""The fate ledger of a compaction: what became of each message, and the prompt as it was sent afterwards.

Pure: everything comes from the payload of `compact.pruned_messages`, so the same payload gives the same ledger.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewer.numbers import to_count

FATES = ("pinned", "kept", "summarized", "truncated", "cleared", "externalized", "dropped")
STAYS = frozenset({"pinned", "kept", "truncated"})
_MAX_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of the prompt and what became of it."""

    position: int
    id: str
    hash: str
    role: str
    tokens: int
    fate: str
    rule: str
    into: str

    @property
    def stays(self) -> bool:
        return self.fate in STAYS


@dataclass(frozen=True, slots=True)
class After:
    """One message of the prompt as it was sent afterwards."""

    position: int
    id: str
    hash: str
    role: str
    tokens: int
    state: str  # unchanged, moved, changed, new
    was: int | None


@dataclass(frozen=True, slots=True)
class Ledger:
    entries: list[Entry]
    after: list[After]
    is_cut: bool = False

    @property
    def counts(self) -> list[tuple[str, int, int]]:
        """Each fate that occurs: its messages and their tokens."""
        rows = [(fate, [e for e in self.entries if e.fate == fate]) for fate in self.fates]
        return [(fate, len(found), sum(e.tokens for e in found)) for fate, found in rows if found]

    @property
    def fates(self) -> list[str]:
        known = [fate for fate in FATES if any(e.fate == fate for e in self.entries)]
        return known + sorted({e.fate for e in self.entries} - set(FATES))

    @property
    def moved(self) -> list[After]:
        return [message for message in self.after if message.state == "moved"]

    @property
    def tokens_before(self) -> int:
        return sum(entry.tokens for entry in self.entries)

    @property
    def tokens_after(self) -> int:
        return sum(message.tokens for message in self.after)


def ledger(payload: Any) -> Ledger:
    """The ledger of a `compact.pruned_messages` payload; what is not one gives an empty ledger."""
    content = payload if isinstance(payload, Mapping) else {}
    rows = [row for row in _list(content.get("ledger")) if isinstance(row, Mapping)]
    entries = [
        Entry(
            position=position,
            id=str(row.get("id", "")),
            hash=str(row.get("hash", "")),
            role=str(row.get("role", "")),
            tokens=to_count(row.get("tokens")),
            fate=str(row.get("fate", "")),
            rule=str(row.get("rule", "")),
            into=str(row.get("into") or ""),
        )
        for position, row in enumerate(rows[:_MAX_ROWS])
    ]
    return Ledger(entries, _after(entries, _list(content.get("after"))[:_MAX_ROWS]), len(rows) > _MAX_ROWS)


def _after(entries: Sequence[Entry], rows: Sequence[Any]) -> list[After]:
    by_id = {entry.id: entry for entry in entries if entry.id}
    by_hash = {entry.hash: entry for entry in entries if entry.hash}
    found = [
        (row, by_id.get(str(row.get("id", ""))) or by_hash.get(str(row.get("hash", ""))))
        for row in rows
        if isinstance(row, Mapping)
    ]
    in_order = rising([entry.position for _, entry in found if entry is not None])
    after = []
    for position, (row, entry) in enumerate(found):
        if entry is None:
            state = "new"
        elif entry.position not in in_order:
            state = "moved"
        else:
            state = "unchanged" if entry.hash == str(row.get("hash", "")) else "changed"
        after.append(
            After(
                position=position,
                id=str(row.get("id", "")),
                hash=str(row.get("hash", "")),
                role=str(row.get("role", "")),
                tokens=to_count(row.get("tokens")),
                state=state,
                was=entry.position if entry else None,
            )
        )
    return after


def rising(positions: Sequence[int]) -> set[int]:
    """The longest rising run of positions: what is in it kept its order, the rest was moved."""
    tails: list[int] = []
    before: dict[int, int | None] = {}
    for position in positions:
        low, high = 0, len(tails)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if tails[middle] < position else (low, middle)
        before[position] = tails[low - 1] if low else None
        tails[low : low + 1] = [position]
    kept: set[int] = set()
    at = tails[-1] if tails else None
    while at is not None:
        kept.add(at)
        at = before[at]
    return kept


def paired(one: Ledger, other: Ledger) -> list[tuple[Entry | None, Entry | None]]:
    """The messages of two ledgers side by side: by hash, in order, since the same text may be in a prompt twice."""
    again: dict[str, deque[Entry]] = {}
    for entry in other.entries:
        again.setdefault(entry.hash or entry.id, deque()).append(entry)
    found: list[tuple[Entry | None, Entry | None]] = []
    for entry in one.entries:
        same = again.get(entry.hash or entry.id)
        found.append((entry, same.popleft() if same else None))
    left = sorted((entry for rest in again.values() for entry in rest), key=lambda entry: entry.position)
    return [*found, *((None, entry) for entry in left)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
