"""Cut passages around ranked sections: whole lines or sentences, who said them, and the neighbor that explains them.

A passage has sections of one message, and of the messages next to it while there is room. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from compact.recall.passage import Passage
from compact.recall.query import Query
from compact.recall.relevance import Prompt, Ranked
from compact.recall.sections import Section
from compact.recall.terms import count_terms

PASSAGE_CHARS: Final = 620
# The best passage has room for more of what surrounds it.
FIRST_CHARS: Final = 1_500
_OMISSION: Final = "…"
_LABEL_CHARS: Final = 40
_MAX_GAP: Final = 2
_STEPS: Final = (1, -1, 2, -2, 3, -3, 4, -4)


class _Group:
    """The sections of a passage."""

    def __init__(self, ranked: Ranked, chars: int) -> None:
        self.best = ranked
        self.sections = {ranked.section.row: ranked.section}
        self.room = chars - len(ranked.section.text)

    def add(self, section: Section) -> bool:
        """Add a section if there is room."""
        return self.add_all([section])

    def add_all(self, sections: Sequence[Section]) -> bool:
        """Add sections if there is room for all of them."""
        shown = {section.source.id for section in self.sections.values()}
        labels = {section.source.id for section in sections} - shown
        chars = sum(len(section.text) for section in sections) + _LABEL_CHARS * len(labels)
        if chars > self.room:
            return False
        self.sections |= {section.row: section for section in sections}
        self.room -= chars
        return True

    def best_text(self) -> str:
        """Return the lines of the best section alone."""
        return self.best.section.text.strip("\n")

    def text(self) -> str:
        """Return the lines of the passage. Lines of a neighbor follow its role and id."""
        parts: list[str] = []
        previous: Section | None = None
        for section in sorted(self.sections.values(), key=lambda section: section.row):
            if previous is None or previous.source is not section.source:
                if previous is not None or section.source is not self.best.section.source:
                    parts.append(f"\n[{section.source.role}, message {section.source.id}]\n")
            elif previous.end != section.start:
                parts.append(f"\n{_OMISSION}\n")
            parts.append(section.text)
            previous = section
        lines = "".join(parts).split("\n")
        return "\n".join(line.rstrip() for index, line in enumerate(lines) if line.strip()).strip("\n")


class Room(NamedTuple):
    """The limits of an answer."""

    limit: int
    max_tokens: int
    count_tokens: Callable[[str], int]


def build_passages(
    ranked: Sequence[Ranked], read: Callable[[int], Sequence[Section]], room: Room, query: Query, prompt: Prompt
) -> list[Passage]:
    """Return the best passages that there is room for."""
    if not ranked:
        return []
    best = ranked[0].section.text
    chars = int(room.max_tokens * len(best) / max(1, room.count_tokens(best)))
    groups = _group(ranked, read, room.limit, chars)
    shown = {row for group in groups for row in group.sections}
    for group in groups:
        _add_lines(group, read, shown)
        _add_neighbors(group, read, shown)
    passages: list[Passage] = []
    left = room.max_tokens
    for group in groups:
        text = next((text for text in (group.text(), group.best_text()) if room.count_tokens(text) <= left), "")
        if not text and not passages:
            text = _cut(group.best_text(), left, room.count_tokens, query)
        if not text:
            break
        left -= room.count_tokens(text)
        passages.append(_passage(group, text, prompt))
    return passages


def _group(ranked: Sequence[Ranked], read: Callable[[int], Sequence[Section]], limit: int, chars: int) -> list[_Group]:
    """Return the sections as passages, best first.

    Sections next to each other are one passage while there is room.
    """
    groups: list[_Group] = []
    for item in ranked:
        row = item.section.row
        if any(row in group.sections or _join(group, item, read) for group in groups):
            continue
        if len(groups) < limit:
            groups.append(_Group(item, min(chars, PASSAGE_CHARS if groups else FIRST_CHARS)))
    return groups


def _join(group: _Group, item: Ranked, read: Callable[[int], Sequence[Section]]) -> bool:
    """Add a section to a passage that it belongs to, with the section between them."""
    row = item.section.row
    nearest = min(group.sections, key=lambda other: abs(other - row))
    if abs(nearest - row) > _MAX_GAP:
        return False
    step = 1 if row > nearest else -1
    between = [section for n in range(nearest + step, row, step) for section in read(n) if section.row == n]
    return group.add_all([*between, item.section])


def _add_lines(group: _Group, read: Callable[[int], Sequence[Section]], shown: set[int]) -> None:
    """Add the lines around the best section."""
    row = group.best.section.row
    own = {section.row: section for section in read(row)}
    for step in _STEPS:
        if row + step in own and row + step not in shown and group.add(own[row + step]):
            shown.add(row + step)


def _add_neighbors(group: _Group, read: Callable[[int], Sequence[Section]], shown: set[int]) -> None:
    """Add the messages before and after the best one, if they fit as a whole."""
    own = read(group.best.section.row)
    for row in (own[0].row - 1, own[-1].row + 1):
        sections = read(row)
        rows = {section.row for section in sections}
        if sections and shown.isdisjoint(rows) and group.add_all(sections):
            shown |= rows


def _cut(text: str, max_tokens: int, count_tokens: Callable[[str], int], query: Query) -> str:
    """Return the line of a section that has most of the query's terms, cut at its end."""
    line = max(text.splitlines(), key=lambda line: count_terms(line, query.terms)).strip()
    if count_tokens(line) <= max_tokens:
        return line
    short, long = 0, len(line)
    while short < long:
        middle = (short + long + 1) // 2
        if count_tokens(f"{line[:middle].rstrip()}{_OMISSION}") <= max_tokens:
            short = middle
        else:
            long = middle - 1
    return f"{line[:short].rstrip()}{_OMISSION}" if short else ""


def _passage(group: _Group, text: str, prompt: Prompt) -> Passage:
    source = group.best.section.source
    ids = dict.fromkeys(section.source.id for section in group.sections.values())
    return Passage(
        message_id=source.id,
        role=source.role,
        turn=source.turn,
        time=source.time,
        text=text,
        score=round(group.best.score, 3),
        is_in_prompt=all(message_id in prompt.ids for message_id in ids),
        neighbor_ids=tuple(message_id for message_id in ids if message_id != source.id),
    )
