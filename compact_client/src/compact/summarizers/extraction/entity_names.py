"""The bare names of what no chosen line mentions: what must not be lost first, then what is likeliest to be needed.

A name alone says little, but it can be copied and searched for; and it takes a fifth of the room of its line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import accumulate, takewhile
from typing import Final

from compact.summarizers.extraction.coverage import CHARS_PER_TOKEN, COUNTED, Candidate, Reading
from compact.summary.entries import Entity
from compact.summary.renderer import PHRASE_END, SAID, SHOWN

NAMES_SHARE: Final = 0.18  # of the budget, for names that are likely to be needed
_OWED_SHARE: Final = 0.15  # and for ids, numbers and paths that somebody said: not to be lost while they fit
_HEADING_TOKENS: Final = 16  # of the list: its own, and one for words and one for phrases, said and shown
_MOST_CHARS_PER_TOKEN: Final = 5  # of names
SORTS: Final = {
    "id": "ids",
    "path": "paths",
    "number": "amounts",
    "file": "files",
    "url": "urls",
    "email": "mails",
    "uuid": "ids",
    "code": "ids",
    "ticket": "ids",
    "hex": "ids",
    "branch": "ids",
    "date": "dates",
    "money": "amounts",
    "unit": "amounts",
    "error": "errors",
    "version": "versions",
}


class Names:
    """What can be named of a reading beside the lines that are kept of it."""

    def __init__(self, reading: Reading, chances: list[float]) -> None:
        self._reading = reading
        self._chances = chances
        self._owed = reading.owed()

    def room(self, kept: Iterable[Candidate], budget_tokens: float) -> float:
        """The tokens that the names of all that is missing would take, as far as they are granted any."""
        covered, keys = self._covered(kept), self._reading.keys
        room = min(sum(_tokens(keys[number]) for number in self._owed - covered), budget_tokens * _OWED_SHARE)
        most = room + budget_tokens * NAMES_SHARE
        for number, key in enumerate(keys):
            if room >= most:
                return most
            if number not in covered and number not in self._owed:
                room += _tokens(key)
        return room

    def said_elsewhere(self, kept: Collection[Candidate]) -> tuple[str, ...]:
        """The owed names that only lines of a tool will show from here on."""
        told = {number for item in kept if item.block.kind not in ("output", "code") for number in item.entities}
        found = (self._owed - told) & self._covered(kept)
        return tuple(self._reading.keys[number] for number in sorted(found))

    def listed(self, kept: Iterable[Candidate], room: int, count_tokens: Callable[[str], int]) -> list[Entity]:
        """As many names as there is room for, the most needed first."""
        reading, covered = self._reading, self._covered(kept)
        room -= _HEADING_TOKENS
        # A bare number says nothing, but for one of which the user spoke.
        rest = (
            number
            for number, usage in enumerate(reading.usages)
            if number not in covered and number not in self._owed and usage.type not in COUNTED
        )
        likeliest = sorted(rest, key=self._rank)[: max(0, room // 2)]
        names: list[Entity] = []
        chars, most = 0, room * _MOST_CHARS_PER_TOKEN
        for number in (*sorted(self._owed - covered, key=self._rank), *likeliest):
            if chars >= most:
                break
            usage = reading.usages[number]
            name = reading.name(number)
            if PHRASE_END in name or "\n" in name:
                continue
            chars += len(name) + 1
            role = f"{SAID if usage.is_said else SHOWN} {SORTS.get(usage.type, '')}".rstrip()
            names.append(Entity(name, role, reading.sources(number), number))
        return _prefix(names, room, count_tokens)

    def _covered(self, kept: Iterable[Candidate]) -> set[int]:
        return self._reading.visible.union(*(candidate.entities for candidate in kept))

    def _rank(self, number: int) -> tuple[float, int]:
        return -self._chances[number] / _tokens(self._reading.keys[number]), number


def _prefix(names: list[Entity], room: int, count_tokens: Callable[[str], int]) -> list[Entity]:
    # Counted together and cut by length: to count each of a thousand names would take longer than to choose them.
    text = " ".join(name.name for name in names)
    chars = room * len(text) / max(1, count_tokens(text))
    ends = accumulate(len(name.name) + 1 for name in names)
    return names[: sum(1 for _ in takewhile(lambda end: end <= chars, ends))]


def _tokens(key: str) -> float:
    return len(key) / CHARS_PER_TOKEN + 1.5
