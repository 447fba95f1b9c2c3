"""Choose the lines that keep most of what is likely to be needed again, within a budget of tokens.

Budgeted maximum coverage: a line is worth the chance of reuse of the entities it would newly bring into view, plus a
bonus for its kind; lines are taken greedily by worth per token. Same lines, same choice, always.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from compact.extraction.entities import TYPE_WEIGHTS, find_entities, surface
from compact.extraction.kinds import field_of, is_instruction
from compact.extraction.lines import Line

# Fitted on recorded sessions (logistic regression on "was it used again"), rounded to what held when each source of
# sessions in turn was left out; the signs matter more than the digits.
_INTERCEPT: Final = -2.0
_SAID: Final = 0.4  # per log mention in prose or as an argument
_SHOWN: Final = 0.15  # per log mention inside tool output
_FAR: Final = -0.5  # per log thousand tokens since the last mention
_BY_USER: Final = 0.6
_BY_LAST_USER: Final = 0.5
_AS_ARGUMENT: Final = 0.1
_SHOWN_ONLY: Final = -1.7
_BY_TYPE: Final[dict[str, float]] = {
    "acronym": -2.5,
    "code": 0.5,
    "date": 0.6,
    "dotted": 0.5,
    "email": 1.0,
    "error": 0.5,
    "file": -0.4,
    "flag": 0.8,
    "ident": 0.6,
    "name": -1.0,
    "num": -1.0,
    "url": -0.6,
    "uuid": 0.6,
}

CHARS_PER_TOKEN: Final = 3.6
_LINE_TOKENS: Final = 3.0  # bullet and newline

# What a line is worth for its kind alone, on the scale of entities (an id that will surely be needed again is worth 1).
BONUS: Final[dict[str, float]] = {
    "current_task": 4.0,
    "artifacts": 2.0,
    "goals": 0.6,
    "current_plan": 0.4,
    "constraints": 0.4,
    "open_items": 0.35,
    "decisions": 0.25,
    "requests": 0.12,
}
# At most this share of the budget is given ahead of the competition to standing instructions.
_FIRST_SHARE: Final = 0.5


@dataclass(slots=True)
class Usage:
    """How one entity was used in what was read."""

    type: str
    line: str
    said: int = 0
    written: int = 0
    shown: int = 0
    last_chars: int = 0
    by_user: bool = False
    by_last_user: bool = False
    as_argument: bool = False


@dataclass(slots=True)
class Candidate:
    """A line that may be kept; `is_first` puts it ahead of the competition."""

    line: Line
    field: str
    entities: tuple[int, ...]
    bonus: float
    tokens: float
    order: int
    is_first: bool


class Reading:
    """What was read: every line once, its entities, and how likely each entity is to be needed again."""

    def __init__(self, keep_keys: Sequence[str] = ()) -> None:
        self.usages: list[Usage] = []
        self.keys: list[str] = []
        self.candidates: list[Candidate] = []
        self.visible: set[int] = set()
        self.chars = 0
        self._index: dict[str, int] = {}
        self._lines: dict[str, tuple[int, ...]] = {}
        self._seen: set[str] = set()
        self._keep = re.compile("|".join(map(re.escape, sorted(keep_keys))), re.IGNORECASE) if keep_keys else None

    def name(self, number: int) -> str:
        """An entity as it was first written."""
        return surface(self.usages[number].line, self.keys[number])

    def add(self, lines: Iterable[Line], *, last_user: int = -1) -> None:
        """Read lines that may be kept."""
        seen, candidates = self._seen, self.candidates
        for line, entities in self._used(lines, last_user):
            text, kind = line.text, line.kind
            if text in seen:
                continue
            seen.add(text)
            is_tool_text = kind in ("output", "code")
            if is_tool_text and not entities and self._keep is None:
                continue  # names nothing: it could never be worth its tokens
            # What tools returned has no bonus, so its field can wait until it is chosen.
            field = line.field or ("outputs" if is_tool_text else field_of(line))
            tokens = len(text) / CHARS_PER_TOKEN + _LINE_TOKENS
            is_first = self._is_first(line, field)
            candidates.append(
                Candidate(line, field, entities, BONUS.get(field, 0.0), tokens, len(candidates), is_first)
            )

    def add_visible(self, lines: Iterable[Line], *, last_user: int = -1) -> None:
        """Read lines that stay in the prompt anyway: what they mention need not be kept twice."""
        for line, entities in self._used(lines, last_user):
            self.visible.update(entities)
            self._seen.add(line.text)

    def chances(self) -> list[float]:
        """For each entity, its weight times the chance that it is needed again."""
        result = []
        for usage in self.usages:
            distance = (self.chars - usage.last_chars) / (CHARS_PER_TOKEN * 1000)
            score = (
                _INTERCEPT
                + _SAID * math.log1p(usage.said)
                + _SHOWN * math.log1p(usage.shown)
                + _FAR * math.log1p(distance)
                + _BY_USER * usage.by_user
                + _BY_LAST_USER * usage.by_last_user
                + _AS_ARGUMENT * usage.as_argument
                + (_SHOWN_ONLY if not usage.said and not usage.written else 0.0)
                + _BY_TYPE.get(usage.type, 0.0)
            )
            result.append(TYPE_WEIGHTS[usage.type] / (1.0 + math.exp(-score)))
        return result

    def _is_first(self, line: Line, field: str) -> bool:
        if field in ("current_task", "artifacts"):
            return True
        if field == "constraints" and (line.entry is not None or is_instruction(line.text)):
            return True
        return self._keep is not None and self._keep.search(line.text) is not None

    def _used(self, lines: Iterable[Line], last_user: int) -> Iterator[tuple[Line, tuple[int, ...]]]:
        """Each line with its entities, whose use it is noted as. The innermost loop of all: kept flat on purpose."""
        known, usages, chars = self._lines, self.usages, self.chars
        for line in lines:
            text, kind = line.text, line.kind
            chars += len(text) + 1
            entities = known.get(text)
            if entities is None:
                entities = known[text] = self._entities(text)
            for number in entities:
                usage = usages[number]
                usage.last_chars = chars
                if kind == "output":
                    usage.shown += 1
                elif kind == "code":
                    usage.written += 1
                else:
                    usage.said += 1
                    if kind == "user":
                        usage.by_user = True
                        usage.by_last_user |= line.position == last_user
                    elif kind != "prose":
                        usage.as_argument = True
            yield line, entities
        self.chars = chars

    def _entities(self, text: str) -> tuple[int, ...]:
        index, usages = self._index, self.usages
        found: list[int] = []
        for key, kind in find_entities(text):
            number = index.get(key)
            if number is None:
                number = index[key] = len(usages)
                usages.append(Usage(kind, text))
                self.keys.append(key)
            elif TYPE_WEIGHTS[kind] > TYPE_WEIGHTS[usages[number].type]:
                usages[number].type = kind
            found.append(number)
        return tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)


@dataclass(slots=True)
class Choice:
    """Lines in the order in which they were chosen, best first, and what they leave uncovered."""

    chosen: list[Candidate]
    covered: bytearray
    chances: list[float]


def choose(reading: Reading, budget_tokens: float) -> Choice:
    """The best lines within the budget, best first: a prefix of the result is the best choice for a smaller budget."""
    chances = reading.chances()
    covered = bytearray(len(chances))
    for number in reading.visible:
        covered[number] = 1
    chosen: list[Candidate] = []
    left = budget_tokens
    reserved = budget_tokens * _FIRST_SHARE
    for candidate in _greedy([item for item in reading.candidates if item.is_first], covered, chances):
        if candidate.tokens > reserved:
            continue
        reserved -= candidate.tokens
        left -= candidate.tokens
        chosen.append(candidate)
        for number in candidate.entities:
            covered[number] = 1
    taken = {candidate.order for candidate in chosen}
    for candidate in _greedy([item for item in reading.candidates if item.order not in taken], covered, chances):
        if left < 4:
            break
        if candidate.tokens > left:
            continue
        left -= candidate.tokens
        chosen.append(candidate)
        for number in candidate.entities:
            covered[number] = 1
    return Choice(chosen, covered, chances)


def _greedy(candidates: list[Candidate], covered: bytearray, chances: list[float]) -> Iterator[Candidate]:
    """Candidates by worth per token, as `covered` stands when each is asked for; the worthless are left out."""

    def density(candidate: Candidate) -> float:
        worth = candidate.bonus
        for number in candidate.entities:
            if not covered[number]:
                worth += chances[number]
        return worth / candidate.tokens

    heap = [(-value, index) for index, item in enumerate(candidates) if (value := density(item)) > 0.0]
    heapq.heapify(heap)
    while heap:
        _, index = heapq.heappop(heap)
        value = density(candidates[index])
        if value <= 0.0:
            continue
        # Lazy: worth only ever falls, so a line that is still on top after its update is the best one.
        if heap and -value > heap[0][0]:
            heapq.heappush(heap, (-value, index))
            continue
        yield candidates[index]
