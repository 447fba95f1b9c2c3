"""The fate ledger of a compaction: the fate of each message, and the prompt after the compaction.

Pure: the ledger is computed from the payload of `compact.pruned_messages` alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compact.events.reading import REMAINING_FATES

from viewer.numbers import to_count

FATES = ("pinned", "kept", "summarized", "truncated", "cleared", "externalized", "dropped")
_MAX_ROWS = 20_000
_FIRST_ROWS = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of the prompt and its fate."""

    position: int
    id: str
    hash: str
    role: str
    tokens: int
    fate: str
    rule: str
    into: str
    inferred: bool = False  # from the log of an agent that does not say what it did

    @property
    def stand_in(self) -> str:
        """A description of a message that a compaction wrote itself, which no archive contains."""
        if self.id.startswith("artifact-"):
            return "Pointer to a stored tool result"
        return "Summary of earlier messages" if self.id.startswith(("summary-", "span-")) else ""

    @property
    def stays(self) -> bool:
        return self.fate in REMAINING_FATES


@dataclass(frozen=True, slots=True)
class MessageAfter:
    """One message of the prompt after the compaction."""

    position: int
    id: str
    hash: str
    role: str
    tokens: int
    state: str  # unchanged, moved, changed, new
    was: int | None  # its position before


@dataclass(frozen=True, slots=True)
class Ledger:
    entries: list[Entry]
    after: list[MessageAfter]
    is_truncated: bool = False

    @property
    def first_entries(self) -> list[Entry]:
        """The entries that the page contains before a script draws the ledger."""
        return self.entries[:_FIRST_ROWS]

    @property
    def rows(self) -> list[tuple[str, str, str, int, str, str, str, bool, str]]:
        """All entries as rows of JSON for `static/js/compactions/fate-ledger.js`."""
        return [(e.id, e.hash, e.role, e.tokens, e.fate, e.rule, e.into, e.inferred, e.stand_in) for e in self.entries]

    @property
    def inferred_count(self) -> int:
        return sum(entry.inferred for entry in self.entries)

    @property
    def removed_count(self) -> int:
        """The entries that left the prompt, with the summaries and pointers of earlier compactions."""
        return sum(not entry.stays and entry.fate != "cleared" for entry in self.entries)

    @property
    def counts(self) -> list[tuple[str, int, int]]:
        """Each fate in the ledger with its number of messages and tokens."""
        groups = [(fate, [entry for entry in self.entries if entry.fate == fate]) for fate in self.fates]
        return [(fate, len(entries), sum(entry.tokens for entry in entries)) for fate, entries in groups]

    @property
    def fates(self) -> list[str]:
        fates = {entry.fate for entry in self.entries}
        return [fate for fate in FATES if fate in fates] + sorted(fates - set(FATES))

    @property
    def moved(self) -> list[MessageAfter]:
        return [message for message in self.after if message.state == "moved"]

    @property
    def tokens_before(self) -> int:
        return sum(entry.tokens for entry in self.entries)

    @property
    def tokens_after(self) -> int:
        return sum(message.tokens for message in self.after)


def parse_ledger(payload: Any) -> Ledger:
    """Parse the payload of `compact.pruned_messages`. Anything else gives an empty ledger."""
    content = payload if isinstance(payload, Mapping) else {}
    rows = [row for row in _list(content.get("ledger")) if isinstance(row, Mapping)]
    entries = [
        Entry(
            position=position,
            id=_text(row, "id"),
            hash=_text(row, "hash"),
            role=_text(row, "role"),
            tokens=to_count(row.get("tokens")),
            fate=_text(row, "fate"),
            rule=_text(row, "rule"),
            into=_text(row, "into"),
            inferred=row.get("inferred") is True,
        )
        for position, row in enumerate(rows[:_MAX_ROWS])
    ]
    return Ledger(entries, _parse_after(entries, _list(content.get("after"))[:_MAX_ROWS]), len(rows) > _MAX_ROWS)


def _parse_after(entries: Sequence[Entry], rows: Sequence[Any]) -> list[MessageAfter]:
    by_id = {entry.id: entry for entry in entries if entry.id}
    by_hash = {entry.hash: entry for entry in entries if entry.hash}
    pairs = [
        (row, by_id.get(_text(row, "id")) or by_hash.get(_text(row, "hash")))
        for row in rows
        if isinstance(row, Mapping)
    ]
    in_order = longest_increasing([entry.position for _, entry in pairs if entry is not None])
    return [
        MessageAfter(
            position=position,
            id=_text(row, "id"),
            hash=_text(row, "hash"),
            role=_text(row, "role"),
            tokens=to_count(row.get("tokens")),
            state=_state(row, entry, in_order),
            was=entry.position if entry else None,
        )
        for position, (row, entry) in enumerate(pairs)
    ]


def _state(row: Mapping[str, Any], entry: Entry | None, in_order: set[int]) -> str:
    if entry is None:
        return "new"
    if entry.position not in in_order:
        return "moved"
    return "unchanged" if entry.hash == _text(row, "hash") else "changed"


def longest_increasing(positions: Sequence[int]) -> set[int]:
    """Return the longest increasing subsequence: the positions that kept their order. The others moved."""
    tails: list[int] = []
    predecessor: dict[int, int | None] = {}
    for position in positions:
        index = bisect_left(tails, position)
        predecessor[position] = tails[index - 1] if index else None
        tails[index : index + 1] = [position]
    subsequence: set[int] = set()
    current = tails[-1] if tails else None
    while current is not None:
        subsequence.add(current)
        current = predecessor[current]
    return subsequence


def match_entries(a: Ledger, b: Ledger) -> list[tuple[Entry | None, Entry | None]]:
    """Pair the messages of two ledgers by hash, in order. The same text may be in a prompt twice."""
    unmatched: dict[str, deque[Entry]] = {}
    for entry in b.entries:
        unmatched.setdefault(entry.hash or entry.id, deque()).append(entry)
    pairs: list[tuple[Entry | None, Entry | None]] = []
    for entry in a.entries:
        same = unmatched.get(entry.hash or entry.id)
        pairs.append((entry, same.popleft() if same else None))
    only_b = sorted((entry for entries in unmatched.values() for entry in entries), key=lambda entry: entry.position)
    return [*pairs, *((None, entry) for entry in only_b)]


def _text(row: Mapping[str, Any], name: str) -> str:
    """Return a field as text. A missing or null field is empty."""
    return str(row.get(name) or "")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
