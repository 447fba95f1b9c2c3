"""List the bare names of entities that no selected line mentions.

A name says little by itself, but it can be copied and searched for, and it needs a fifth of the space of its line.
Required entities come first, then those with the highest reuse score.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import accumulate, takewhile
from typing import Final

from compact.summarizers.extraction.span_index import CHARS_PER_TOKEN, NUMBER_TYPES, Candidate, SpanIndex
from compact.summary.entries import Entity
from compact.summary.renderer import PHRASE_END, SAID, SHOWN

NAMES_SHARE: Final = 0.09  # of the budget, for entities that are likely to be needed
_REQUIRED_SHARE: Final = 0.15  # of the budget, for required entities
_HEADING_TOKENS: Final = 40  # the list heading, and the labels
_MAX_CHARS_PER_TOKEN: Final = 5
# A list of names is only readable if its label says what they are.
ROLE_LABELS: Final = {
    "id": "identifiers",
    "uuid": "identifiers",
    "code": "identifiers",
    "ticket": "identifiers",
    "hex": "identifiers",
    "branch": "identifiers",
    "path": "paths",
    "file": "files",
    "url": "web addresses",
    "email": "mail addresses",
    "date": "dates",
    "money": "amounts",
    "unit": "amounts",
    "num": "amounts",
    "number": "amounts",
    "error": "error types",
    "version": "versions",
    "flag": "command options",
    "option": "command options",
    "ident": "code symbols",
    "dotted": "code symbols",
    "acronym": "abbreviations",
    "name": "people and places",
    "quoted": "quoted texts",
}


class EntityNames:
    """Selects the entity names to list after the lines of a summary."""

    def __init__(self, index: SpanIndex, reuse_scores: list[float]) -> None:
        self._index = index
        self._reuse_scores = reuse_scores
        self._required = index.required_entities()

    def reserved_tokens(self, lines: Iterable[Candidate], budget_tokens: float) -> float:
        """Return the tokens to reserve for the names of all missing entities, up to their share of the budget."""
        covered, keys = self._covered_entities(lines), self._index.keys
        tokens = min(
            sum(_name_tokens(keys[entity]) for entity in self._required - covered), budget_tokens * _REQUIRED_SHARE
        )
        limit = tokens + budget_tokens * NAMES_SHARE
        for entity, key in enumerate(keys):
            if tokens >= limit:
                return limit
            if entity not in covered and entity not in self._required:
                tokens += _name_tokens(key)
        return tokens

    def said_but_only_shown(self, lines: Collection[Candidate]) -> tuple[str, ...]:
        """Return the required keys that from now on only appear in lines of tool output or code."""
        said = {entity for line in lines if line.block.kind not in ("output", "code") for entity in line.entities}
        entities = (self._required - said) & self._covered_entities(lines)
        return tuple(self._index.keys[entity] for entity in sorted(entities))

    def select(self, lines: Iterable[Candidate], room: int, count_tokens: Callable[[str], int]) -> list[Entity]:
        """Return as many names as fit into `room` tokens, the most important first."""
        index, covered = self._index, self._covered_entities(lines)
        room -= _HEADING_TOKENS
        # A bare number is only useful if the user mentioned it, and those are required entities.
        optional = (
            entity
            for entity, usage in enumerate(index.usages)
            if entity not in covered and entity not in self._required and usage.type not in NUMBER_TYPES
        )
        likeliest = sorted(optional, key=self._rank)[: max(0, room // 2)]
        names: list[Entity] = []
        chars, max_chars = 0, room * _MAX_CHARS_PER_TOKEN
        for entity in (*sorted(self._required - covered, key=self._rank), *likeliest):
            if chars >= max_chars:
                break
            name = index.name(entity)
            if PHRASE_END in name or "\n" in name:
                continue
            chars += len(name) + 1
            usage = index.usages[entity]
            role = f"{SAID if usage.is_said else SHOWN} {ROLE_LABELS[usage.type]}"
            names.append(Entity(name, role, index.sources(entity), entity))
        return _fitting_names(names, room, count_tokens)

    def _covered_entities(self, lines: Iterable[Candidate]) -> set[int]:
        return self._index.visible.union(*(line.entities for line in lines))

    def _rank(self, entity: int) -> tuple[float, int]:
        return -self._reuse_scores[entity] / _name_tokens(self._index.keys[entity]), entity


def _fitting_names(names: list[Entity], room: int, count_tokens: Callable[[str], int]) -> list[Entity]:
    # Count all names at once and cut by length. Counting a thousand names one by one would dominate the run time.
    text = " ".join(name.name for name in names)
    chars = room * len(text) / max(1, count_tokens(text))
    ends = accumulate(len(name.name) + 1 for name in names)
    return names[: sum(1 for _ in takewhile(lambda end: end <= chars, ends))]


def _name_tokens(key: str) -> float:
    return len(key) / CHARS_PER_TOKEN + 1.5
