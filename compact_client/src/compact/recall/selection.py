"""Choose the lines of a recall, and write them as passages.

The best lines first, as long as they say something new. Messages next to each other form one passage. What is left of
the tokens lists further names, from the same messages and from others that match, so that the model can ask for them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

from compact.recall.passage import Passage
from compact.recall.scores import Chunk, RankedChunk
from compact.recall.terms import names_in

_MIN_SHARE: Final = 0.02
_COVERED_WEIGHT: Final = 0.1
_TEXT_SHARE: Final = 0.5
_MAX_DISTANCE: Final = 2
_MAX_MESSAGES: Final = 4
_OMISSION: Final = "…"
_OMISSION_TOKENS: Final = 2
_HEADING_TOKENS: Final = 12
_MIN_CHUNK_TOKENS: Final = 16
_SAMPLE_CHUNKS: Final = 4
_NAMES_TOKENS: Final = 8
_SEPARATOR_TOKENS: Final = 1.5


class SourceText(Protocol):
    """The parts of a source that a passage needs."""

    id: str
    role: str
    text: str
    turn: int
    time: str | None


class _Group:
    """Messages that form one passage, and the chunks and names of each."""

    def __init__(self) -> None:
        self.chunks: dict[int, list[RankedChunk]] = {}
        self.names: dict[int, list[str]] = {}

    @property
    def best(self) -> RankedChunk:
        return max(self.items(), key=_by_score)

    def items(self) -> Iterator[RankedChunk]:
        for chunks in self.chunks.values():
            yield from chunks

    def remove_worst(self) -> None:
        worst = min(self.items(), key=_by_score)
        number = worst.chunk.source
        self.chunks[number].remove(worst)
        if not self.chunks[number]:
            del self.chunks[number]

    def remove_names(self) -> bool:
        """Remove the last names of the message that has most of them. Return False if there are none."""
        if not self.names:
            return False
        number = max(self.names, key=lambda number: len(self.names[number]))
        del self.names[number][-max(1, len(self.names[number]) // 4) :]
        if not self.names[number]:
            del self.names[number]
        return True

    @property
    def numbers(self) -> list[int]:
        """The messages of which the passage shows something."""
        return sorted({*self.chunks, *self.names})

    def distance(self, number: int) -> int:
        return min(abs(number - other) for other in self.chunks)

    def is_near(self, number: int) -> bool:
        return len(self.chunks) < _MAX_MESSAGES and self.distance(number) <= _MAX_DISTANCE


class Selection:
    """The chunks and names that a recall shows, under a limit of passages and tokens."""

    def __init__(
        self,
        sources: Sequence[SourceText],
        ranked: Sequence[RankedChunk],
        known_words: AbstractSet[str],
        count_tokens: Callable[[str], int],
    ) -> None:
        self._sources = sources
        self._ranked = _newest_of_equal(sources, ranked)
        self._known_words = known_words
        self._count_tokens = count_tokens
        self._groups: list[_Group] = []
        self._limit = self._max_tokens = 0
        self._left = 0.0
        self._tokens_per_char = 0.3
        self._worths: list[float] = []
        self._heap: list[tuple[float, int, int]] = []
        self._chosen_count = 0
        self._shown_terms: set[str] = set()

    def choose(self, limit: int, max_tokens: int) -> None:
        """Choose the best chunks for a share of the tokens."""
        self._limit, self._left, self._max_tokens = limit, max_tokens, max_tokens
        self._ranked.sort(key=_by_score, reverse=True)
        if not self._ranked:
            return
        sample = "\n".join(self._text(item.chunk) for item in self._ranked[:_SAMPLE_CHUNKS])
        self._tokens_per_char = max(0.05, self._count_tokens(sample) / max(1, len(sample)))
        # Longer chunks must be worth more.
        self._worths = [item.score / math.sqrt(self._tokens(item.chunk)) for item in self._ranked]
        self._heap = [(-worth, index, 0) for index, worth in enumerate(self._worths)]
        heapq.heapify(self._heap)
        self._fill(reserve=round(max_tokens * (1 - _TEXT_SHARE)))

    def choose_more(self) -> None:
        """Choose chunks for the tokens that are left."""
        self._fill(reserve=0)

    def _fill(self, reserve: int) -> None:
        least = _MIN_SHARE * max(self._worths, default=0.0)
        # The best lines are always chosen. If they are too long for all of the tokens, they are cut.
        while self._heap and (not self._groups or self._left - reserve >= _MIN_CHUNK_TOKENS):
            worth, index, valid_for = heapq.heappop(self._heap)
            item = self._ranked[index]
            if -worth < least:
                break
            if valid_for < self._chosen_count:
                # A chunk that repeats what is shown already loses most of its worth.
                fresh = len(item.novel - self._shown_terms) / len(item.novel) if item.novel else 0.0
                worth = self._worths[index] * (_COVERED_WEIGHT + (1 - _COVERED_WEIGHT) * fresh)
                heapq.heappush(self._heap, (-worth, index, self._chosen_count))
            elif self._add(item, reserve):
                self._shown_terms |= item.novel
                self._chosen_count += 1

    def _add(self, item: RankedChunk, reserve: int) -> bool:
        """Show a chunk, in the passage of its message or of a message next to it. Return False if it has no room."""
        number = item.chunk.source
        tokens = self._tokens(item.chunk)
        group = next((group for group in self._groups if number in group.chunks), None)
        if group is None:
            group = next((group for group in self._groups if group.is_near(number)), None)
            if group is not None:
                tokens += _HEADING_TOKENS
            elif len(self._groups) >= self._limit:
                return False
        if self._groups and tokens > self._left - reserve:
            return False
        if group is None:
            group = _Group()
            self._groups.append(group)
        group.chunks.setdefault(number, []).append(item)
        self._left -= tokens
        return True

    def add_names(self, names: Iterable[tuple[int, Mapping[str, str]]]) -> None:
        """List names that the prompt does not have, from other lines of the shown messages and from other messages.

        `names` yields the source of a section and its names, the best section first. Only as many sections are read
        as there is room for.
        """
        if not self._groups:
            return
        groups = {number: group for group in self._groups for number in group.chunks}
        seen, known = self._shown_names(), self._known_words
        for number, section_names in names:
            fresh = [key for key in section_names if key not in seen and key not in known]
            if not fresh:
                continue
            seen.update(fresh)
            group = groups.get(number)
            if group is None:
                group = groups[number] = min(self._groups, key=lambda group: group.distance(number))
            if not self._list_names(group, number, [section_names[key] for key in fresh]):
                break

    def _list_names(self, group: _Group, number: int, names: list[str]) -> bool:
        """List names of a message, as many as have room. Return False if some have not."""
        listed = group.names.get(number)
        left = self._left - (0 if listed else _NAMES_TOKENS)
        needed = self._names_tokens(names)
        has_room = needed <= left
        while names and needed > left:
            needed -= self._names_tokens([names.pop()])
        if names:
            group.names[number] = [*listed, *names] if listed else names
            self._left = left - needed
        return has_room

    def _shown_names(self) -> set[str]:
        """Return the names of the shown lines, in lower case."""
        chunks = (item.chunk for group in self._groups for item in group.items())
        return {key for chunk in chunks for key in names_in(self._text(chunk))}

    def passages(self, visible: Collection[int]) -> list[Passage]:
        """Return the passages, best first, within the tokens."""
        groups = sorted(self._groups, key=lambda group: group.best.score, reverse=True)
        texts = {id(group): self._render(group) for group in groups}
        counts = {key: self._count_tokens(text) for key, text in texts.items()}
        while sum(counts.values()) > self._max_tokens:
            # The sizes were estimates. Drop what is worth least.
            group = max(groups, key=lambda group: sum(map(len, group.names.values())))
            if group.remove_names():
                pass
            elif len(groups) == 1 and sum(1 for _ in group.items()) == 1:
                text = self._cut(texts[id(group)])
                return [self._passage(group, text, visible)] if text else []
            else:
                group = groups[-1]
                group.remove_worst()
                if not group.chunks:
                    groups.remove(group)
                    del counts[id(group)]
                    continue
            texts[id(group)] = self._render(group)
            counts[id(group)] = self._count_tokens(texts[id(group)])
        return [self._passage(group, texts[id(group)], visible) for group in groups]

    def _cut(self, text: str) -> str:
        """Return the beginning of a text that fits into the tokens, and "" if nothing fits."""
        while text and (count := self._count_tokens(text + _OMISSION)) > self._max_tokens:
            text = text[: min(len(text) - 1, len(text) * self._max_tokens // count)]
        return text and text + _OMISSION

    def _passage(self, group: _Group, text: str, visible: Collection[int]) -> Passage:
        best = group.best
        source = self._sources[best.chunk.source]
        return Passage(
            message_id=source.id,
            role=source.role,
            turn=source.turn,
            time=source.time,
            text=text,
            score=round(best.score, 3),
            is_in_prompt=all(number in visible for number in group.numbers),
            neighbor_ids=tuple(self._sources[number].id for number in group.numbers if number != best.chunk.source),
        )

    def _render(self, group: _Group) -> str:
        """Return the lines of a passage. Lines of a neighbor follow its role and id."""
        best = group.best.chunk.source
        parts: list[str] = []
        for number in sorted(group.chunks):
            if parts or number != best:
                parts.append(f"[{self._sources[number].role}, message {self._sources[number].id}]")
            parts.append(self._lines(number, [item.chunk for item in group.chunks[number]]))
        own = [name for number, names in group.names.items() if number in group.chunks for name in names]
        if own:
            parts.append(f"Also in this part: {', '.join(own)}")
        others = sorted(group.names.keys() - group.chunks.keys())
        parts += [f"Also in message {self._sources[number].id}: {', '.join(group.names[number])}" for number in others]
        return "\n".join(parts)

    def _lines(self, number: int, chunks: Sequence[Chunk]) -> str:
        source = self._sources[number]
        text, end = "", None
        for chunk in sorted(chunks, key=lambda chunk: chunk.start):
            if end is not None and chunk.start > end and source.text[end : chunk.start].strip():
                text = f"{text.rstrip()}\n{_OMISSION}\n"
            text += source.text[chunk.start : chunk.end]
            end = chunk.end
        return text.strip("\n")

    def _text(self, chunk: Chunk) -> str:
        return self._sources[chunk.source].text[chunk.start : chunk.end]

    def _tokens(self, chunk: Chunk) -> float:
        return (chunk.end - chunk.start) * self._tokens_per_char + _OMISSION_TOKENS

    def _names_tokens(self, names: Sequence[str]) -> float:
        return sum(map(len, names)) * self._tokens_per_char + len(names) * _SEPARATOR_TOKENS


def _by_score(item: RankedChunk) -> tuple[float, int, int]:
    return item.score, item.chunk.source, -item.chunk.start


def _newest_of_equal(sources: Sequence[SourceText], ranked: Sequence[RankedChunk]) -> list[RankedChunk]:
    """Return the chunks without repetitions of the same lines. The newest source keeps them."""
    newest: dict[str, RankedChunk] = {}
    for item in ranked:
        chunk = item.chunk
        key = " ".join(sources[chunk.source].text[chunk.start : chunk.end].split())
        if key not in newest or newest[key].chunk.source < chunk.source:
            newest[key] = item
    return list(newest.values())
