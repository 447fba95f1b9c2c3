"""Choose the lines that keep most of what is likely to be needed again, within a budget of tokens.

Budgeted maximum coverage: a line is worth the chance of reuse of the entities it would newly bring into view, plus a
bonus for its kind; lines are taken greedily by worth per token. Same lines, same choice, always.

This is the rank by which lines make way when the budget is short. Standing instructions, the current task, artifacts
and what `keep_keys` names are taken before anything competes, within half of the budget. For the rest the constants
below say what counts: who said it and how often, in how many messages and how long ago, what sort of thing it is, and
what sort of line it stands in.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from compact.summarizers.extraction.blocks import Block, Kind
from compact.summarizers.extraction.entities import TYPE_WEIGHTS, Mention, find_entities, surface
from compact.summarizers.extraction.line_classifier import field_of, is_instruction

# Fitted on recorded sessions (logistic regression on "was it used again"), rounded to what held when each source of
# sessions in turn was left out; the signs matter more than the digits. Distance has less weight than the regression
# gives it: what is near stays in the prompt anyway, and a summary is for what is far.
_INTERCEPT: Final = -2.0
_SAID: Final = 0.4  # per log mention in prose or as an argument
_SHOWN: Final = 0.15  # per log mention inside tool output
_FAR: Final = -0.2  # per log thousand tokens since the last mention
_BY_USER: Final = 0.6
_BY_LAST_USER: Final = 0.5
_AS_ARGUMENT: Final = 0.1
_AGAIN: Final = 0.7  # mentioned in more than one message
_SHOWN_ONLY: Final = -1.3  # between -0.7 (service agents) and -1.8 (coding agents)
_SHOWN_IN: Final = -0.2  # per log thousand characters of the output: a short answer was asked for, a long one searched
_BY_TYPE: Final[dict[str, float]] = {
    "acronym": -2.5,
    "code": 0.8,
    "date": 0.6,
    "dotted": 0.5,
    "email": 1.0,
    "error": 0.5,
    "file": -0.4,
    "flag": 0.8,
    "id": 1.5,
    "ident": 0.6,
    "name": -1.0,
    "num": -1.0,
    "quoted": -0.3,
    "url": -0.6,
    "uuid": 0.6,
}

CHARS_PER_TOKEN: Final = 3.6
_LINE_TOKENS: Final = 2.0  # newline and, for some, a mark

# What a line is worth for its kind alone, on the scale of entities (an id that will surely be needed again is worth 1).
# Chosen on every second recorded session and confirmed on the others.
BONUS: Final[dict[str, float]] = {
    "current_task": 4.0,
    "artifacts": 2.0,
    "constraints": 1.3,
    "goals": 0.6,
    "open_items": 1.3,
    "changes": 1.3,  # a file and what was done to it, where a summary of just that was asked for
    "decisions": 0.95,
    "current_plan": 0.8,
    "commands": 0.35,
    "requests": 0.06,
    "tool_outcomes": 0.05,
    "files": 0.05,
    "facts": 0.01,  # plain talk comes last, where there is room
}
_REPEATED: Final = 0.3  # and for each time that the same call was made again
_OUTPUT_LINES: Final = 24.0  # after so many lines of one output, the next is worth half
_FORMS: Final = 3  # so many lines that differ in their numbers alone keep their bonus
_NUMBERED: Final = re.compile(r"(?<!\S)[^\s\d]*+\d\S*+")  # a word with a digit
_CALLS: Final = frozenset({"call", "command", "edit"})
_OPTION: Final = re.compile(r"[(,] ?[\w-]+=(?!true|false|null)([A-Za-z][\w-]{2,30})(?=[,)])")
HEADED: Final = frozenset({"commands", "tool_outcomes", "files", "changes"})
# At most this share of the budget is given ahead of the competition to standing instructions.
_FIRST_SHARE: Final = 0.5

# Sorts of things that can only be copied, and those that mean something only beside what they count.
_COPIED_NAMES: Final = "branch code date email error file hex id money path ticket url uuid version"
_COPIED: Final = frozenset(_COPIED_NAMES.split())
COUNTED: Final = frozenset({"num", "unit"})


@dataclass(slots=True)
class Usage:
    """How one entity was used in what was read."""

    type: str
    line: str
    said: int = 0
    written: int = 0
    shown: int = 0
    shown_in: int = 1 << 30
    messages: int = 0
    last_position: int = -1
    last_chars: int = 0
    by_user: bool = False
    by_last_user: bool = False
    as_argument: bool = False

    @property
    def is_said(self) -> bool:
        """Whether somebody said it or passed it to a tool."""
        return self.said > 0 or self.written > 0


@dataclass(slots=True)
class Candidate:
    """A line that may be kept; `is_first` puts it ahead of the competition."""

    text: str
    block: Block
    field: str
    entities: tuple[int, ...]
    bonus: float
    tokens: float
    order: int
    is_first: bool


class _Numbers(dict[Mention, int]):
    """The number of each entity by how it is mentioned; a mention met before is looked up without any Python."""

    def __init__(self, usages: list[Usage], keys: list[str], said: frozenset[str]) -> None:
        self.line = ""  # the one that is being read
        self._usages = usages
        self._keys = keys
        self._said = said  # in lines that are gone
        self._by_key: dict[str, int] = {}

    def __missing__(self, mention: Mention) -> int:
        key, kind = mention
        usages = self._usages
        number = self._by_key.get(key)
        if number is None:
            number = self._by_key[key] = len(usages)
            usages.append(Usage(kind, self.line, said=int(key in self._said)))
            self._keys.append(key)
        elif TYPE_WEIGHTS[kind] > TYPE_WEIGHTS[usages[number].type]:
            usages[number].type = kind
        self[mention] = number
        return number


class Reading:
    """What was read: every line once, its entities, and how likely each entity is to be needed again."""

    def __init__(self, keep_keys: Sequence[str] = (), *, said: Iterable[str] = ()) -> None:
        self.usages: list[Usage] = []
        self.keys: list[str] = []
        self.candidates: list[Candidate] = []
        self.visible: set[int] = set()
        self.chars = 0
        self._templates: Counter[str] = Counter()
        self._numbers = _Numbers(self.usages, self.keys, frozenset(said))
        self._lines: dict[str, tuple[int, ...]] = {}
        self._seen: dict[str, Candidate | None] = {}  # nothing for what stays in the prompt
        self._keep = re.compile("|".join(map(re.escape, sorted(keep_keys))), re.IGNORECASE) if keep_keys else None

    def name(self, number: int) -> str:
        """An entity as it was first written."""
        return surface(self.usages[number].line, self.keys[number])

    def sources(self, number: int) -> tuple[str, ...]:
        """The message in which an entity was first read, if its line may be kept."""
        candidate = self._seen.get(self.usages[number].line)
        return candidate.block.sources if candidate else ()

    def add(self, blocks: Iterable[Block], *, last_user: int = -1) -> None:
        """Read lines that may be kept."""
        seen = self._seen
        is_opening = True
        for block in blocks:
            is_opening &= block.position == 0
            is_tool_text = block.kind in ("output", "code")
            for text, entities in zip(block.lines, self._noted(block, last_user), strict=True):
                if text in seen:
                    if (known := seen[text]) is not None:
                        _note_again(known, text, block)
                elif entities or not is_tool_text or self._keep is not None:
                    seen[text] = self._candidate(text, block, entities, is_opening=is_opening)
                # else it names nothing: it could never be worth its tokens
                is_opening = False

    def add_visible(self, blocks: Iterable[Block], *, last_user: int = -1) -> None:
        """Read lines that stay in the prompt anyway: what they mention need not be kept twice."""
        for block in blocks:
            self.visible.update(*self._noted(block, last_user))
            for text in block.lines:
                self._seen.setdefault(text)

    def owed(self) -> set[int]:
        """What can only be copied and somebody said or passed to a tool: not to be lost while it fits."""
        return {
            number
            for number, usage in enumerate(self.usages)
            if usage.is_said and (usage.type in _COPIED or (usage.by_user and usage.type in COUNTED))
        }

    def chances(self) -> list[float]:
        """For each entity, its weight times the chance that it is needed again."""
        log1p, exp, chars = math.log1p, math.exp, self.chars
        result = []
        for usage in self.usages:
            distance = (chars - usage.last_chars) / (CHARS_PER_TOKEN * 1000)
            score = (
                _INTERCEPT
                + _SAID * log1p(usage.said)
                + _SHOWN * log1p(usage.shown)
                + _FAR * log1p(distance)
                + _BY_USER * usage.by_user
                + _BY_LAST_USER * usage.by_last_user
                + _AS_ARGUMENT * usage.as_argument
                + (0.0 if usage.is_said else _shown_only(usage.shown_in))
                + _BY_TYPE.get(usage.type, 0.0)
                + (_AGAIN if usage.messages > 1 else 0.0)
            )
            result.append(TYPE_WEIGHTS[usage.type] / (1.0 + exp(-score)))
        return result

    def _candidate(self, text: str, block: Block, entities: tuple[int, ...], *, is_opening: bool) -> Candidate:
        field = block.field or field_of(text, block.kind, is_opening=is_opening)
        tokens = len(text) / CHARS_PER_TOKEN + (_LINE_TOKENS if field != "entities" else 0.0)
        is_first = self._is_first(text, block, field)
        bonus = BONUS.get(field, 0.0)
        # The steps of a plan may well differ in their numbers alone.
        if bonus and not is_first and field != "current_plan" and self._is_form(text):
            bonus = 0.0
        candidate = Candidate(text, block, field, entities, bonus, tokens, len(self.candidates), is_first)
        self.candidates.append(candidate)
        return candidate

    def _is_form(self, text: str) -> bool:
        """Whether the same words came several times with another number each: a program says so, nobody decides it."""
        template = _NUMBERED.sub("#", text)
        if template == text:
            return False
        self._templates[template] += 1
        return self._templates[template] > _FORMS

    def _is_first(self, text: str, block: Block, field: str) -> bool:
        if field in ("current_task", "artifacts"):
            return True
        if field == "constraints" and (block.entry is not None or is_instruction(text)):
            return True
        return self._keep is not None and self._keep.search(text) is not None

    def _noted(self, block: Block, last_user: int) -> list[tuple[int, ...]]:
        """The entities of each line, whose use is noted. The innermost loops of all: kept flat on purpose."""
        known, usages, chars = self._lines, self.usages, self.chars
        numbered = self._numbers.__getitem__
        kind, position = block.kind, block.position
        found: list[tuple[int, ...]] = []
        for text in block.lines:
            chars += len(text) + 1
            entities = known.get(text)
            if entities is None:
                self._numbers.line = text
                entities = known[text] = tuple(dict.fromkeys(map(numbered, _mentions(text, kind))))
            for number in entities:
                usage = usages[number]
                usage.last_chars = chars
                if kind == "output":
                    usage.shown += 1
                elif kind == "code":
                    usage.written += 1
                else:
                    usage.said += 1
            found.append(entities)
        self.chars = chars
        for number in found[0] if len(found) == 1 else set().union(*found):
            usage = usages[number]
            if usage.last_position != position:
                usage.last_position = position
                usage.messages += 1
            if kind == "output":
                usage.shown_in = min(usage.shown_in, block.size)
            elif kind == "user":
                usage.by_user = True
                usage.by_last_user |= position == last_user
            elif kind in _CALLS:
                usage.as_argument = True
        return found


def _mentions(text: str, line_kind: Kind) -> tuple[Mention, ...]:
    if line_kind not in _CALLS:
        return find_entities(text)
    # The options of a call are plain words, and the next call of the tool takes them from the same few.
    return find_entities(text) + tuple((word.lower(), "option") for word in _OPTION.findall(text))


def _note_again(known: Candidate, text: str, block: Block) -> None:
    """A line that was read before is read once more."""
    if known.field in HEADED:
        # What was run again and again will be run again, though it may name nothing.
        known.bonus += _REPEATED
    elif block.kind == "user" != known.block.kind and is_instruction(text):
        # A rule that stood in code before the user gave it is the user's rule.
        known.block, known.field, known.bonus, known.is_first = block, "constraints", BONUS["constraints"], True


@lru_cache(maxsize=4096)  # one output, one size, and often hundreds of entities
def _shown_only(output_chars: int) -> float:
    return _SHOWN_ONLY + _SHOWN_IN * math.log(min(max(output_chars, 100), 100_000) / 1000)


@dataclass(slots=True)
class Choice:
    """Lines in the order in which they were chosen, best first, and the chance of each entity."""

    chosen: list[Candidate]
    chances: list[float]


def choose(reading: Reading, budget_tokens: float) -> Choice:
    """The best lines within the budget, best first: a prefix of the result is the best choice for a smaller budget."""
    chances = reading.chances()
    greedy = _Greedy(chances, reading.visible)
    left = budget_tokens - greedy.take(
        [item for item in reading.candidates if item.is_first], budget_tokens * _FIRST_SHARE
    )
    greedy.take([item for item in reading.candidates if item.order not in greedy.taken], left)
    return Choice(greedy.chosen, chances)


class _Greedy:
    """Takes candidates by worth per token until the room is used."""

    def __init__(self, chances: Sequence[float], visible: Iterable[int]) -> None:
        self.chosen: list[Candidate] = []
        self.taken: set[int] = set()
        self._worth = list(chances)  # of bringing an entity into view; nothing once it is there
        self._show(visible)
        self._taken_of: Counter[int] = Counter()

    def take(self, candidates: list[Candidate], room: float) -> float:
        """Take what is worth most; the tokens that it took."""
        before = room
        heap = [(-value, index) for index, item in enumerate(candidates) if (value := self._density(item)) > 0.0]
        heapq.heapify(heap)
        while heap and room >= 4:
            _, index = heapq.heappop(heap)
            candidate = candidates[index]
            if candidate.tokens > room:
                continue
            value = self._density(candidate)
            if value <= 0.0:
                continue
            # Lazy: worth only ever falls, so a line that is still on top after its update is the best one.
            if heap and -value > heap[0][0]:
                heapq.heappush(heap, (-value, index))
                continue
            room -= candidate.tokens
            self.chosen.append(candidate)
            self.taken.add(candidate.order)
            if candidate.block.kind == "output":
                self._taken_of[candidate.block.position] += 1
            self._show(candidate.entities)
        return before - room

    def _show(self, entities: Iterable[int]) -> None:
        for number in entities:
            self._worth[number] = 0.0

    def _density(self, candidate: Candidate) -> float:
        entity_worth, worth = self._worth, candidate.bonus
        for number in candidate.entities:
            worth += entity_worth[number]
        if candidate.block.kind == "output":
            # Of a listing, each further line is needed less: nobody comes back to a hundred of its names.
            worth *= _OUTPUT_LINES / (_OUTPUT_LINES + self._taken_of[candidate.block.position])
        return worth / candidate.tokens


def missing_heads(reading: Reading, kept: Sequence[Candidate]) -> list[Candidate]:
    """The calls whose output is among the kept lines while they are not, those with most lines first.

    Without its call nobody knows of what a line of output speaks.
    """
    present = {item.text for item in kept}
    wanted = Counter(item.block.head for item in kept if item.block.head and item.block.head not in present)
    heads = [item for item in reading.candidates if item.field in HEADED and item.text in wanted]
    return sorted(heads, key=lambda item: (-wanted[item.text] / item.tokens, item.order))
