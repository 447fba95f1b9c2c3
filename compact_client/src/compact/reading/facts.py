"""Find the facts of messages: goals, rules, decisions, open items, files, and ids, numbers and paths.

The retention check uses them for our own compactions, and a ledger for those of other programs. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compact.messages import Message
from compact.reading.blocks import Block, read_blocks
from compact.reading.entities import (
    NUMBER_TYPES,
    TYPE_WEIGHTS,
    Mention,
    find_entities,
    original_spelling,
    scan_entities,
)
from compact.reading.lines.line_classifier import is_instruction, summary_field
from compact.reading.text_cache import TextCache
from compact.summary.entries import FileTouched, normalize

MAX_LOST_LISTED: Final = 200  # The counts are complete. The list in the event has the most important lost facts.
# Facts that only appear in tool output are needed again far less often than those that were said.
_WEIGHT_SAID: Final = 1.0
_WEIGHT_SHOWN: Final = 0.15
_SENTENCE_WEIGHTS: Final = {"goal": 2.0, "constraint": 2.0, "decision": 0.5, "open_item": 0.5, "file": 1.0}
_COMMITMENTS: Final = ("constraint", "goal", "decision", "open_item", "file")
"""The kinds of facts that someone committed to, in the order in which a reader wants to see those that were lost."""
_PROSE_KINDS: Final = ("user", "prose")
_KIND_BY_FIELD: Final = {
    "goals": "goal",
    "current_task": "goal",
    "decisions": "decision",
    "open_items": "open_item",
}
_MAX_LINE_CHARS: Final = 400  # A longer text is a whole output. It is not read again, so it is not cached.
# The kind of fact for each type of entity. Entities of other types are not looked up.
_ENTITY_KINDS: Final[dict[str, str]] = {
    "id": "id",
    "uuid": "id",
    "hex": "id",
    "code": "id",
    "ticket": "id",
    "email": "id",
    "branch": "id",
    "money": "number",
    "unit": "number",
    "num": "number",
    "date": "number",
    "version": "number",
    "path": "path",
    "file": "path",
    "url": "path",
}


@dataclass(slots=True)
class Fact:
    """A fact of messages. Its original spelling is only looked up when it is shown."""

    kind: str
    line: str
    source_ids: tuple[str, ...]
    key: str  # empty if the fact is the whole line
    weight: float
    order: int
    is_kept: bool
    is_in_conversation: bool = True  # False if only tool results contain it

    @property
    def text(self) -> str:
        """The fact as its message spells it."""
        return original_spelling(self.line, self.key) if self.key else self.line

    @property
    def rank(self) -> tuple[int, float]:
        """Sorts commitments first, and then the heaviest facts."""
        return rank_of_kind(self.kind), -self.weight

    def to_dict(self) -> dict[str, Any]:
        """Return the fact as `compact.retention` lists it."""
        return {"kind": self.kind, "text": self.text, "source_ids": list(self.source_ids)}


def rank_of_kind(kind: str) -> int:
    """Return the place of a kind of facts among those that were lost. Commitments come first."""
    return _COMMITMENTS.index(kind) if kind in _COMMITMENTS else len(_COMMITMENTS)


class PromptText:
    """The text of a prompt and the entities in it."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.text = " ".join(filter(None, (_lowered_words[_all_text(message)] for message in messages)))
        self.lines = {text for block in read_blocks(messages) for text in block.lines}
        self.keys = {key for key, _ in set().union(*map(find_entities, self.lines))}


class FactFinder:
    """Collects the distinct facts of messages, and marks those that a prompt still has.

    `says` is asked about the kind and the text of a sentence or file that the prompt does not contain word for word.
    """

    def __init__(self, prompt: PromptText, says: Callable[[str, str], bool]) -> None:
        self._prompt = prompt
        self._says = says
        self.facts: list[Fact] = []
        self._by_key: dict[str, Fact] = {}
        self._sentences: set[tuple[str, str]] = set()
        self._mentions: defaultdict[tuple[float, bool], set[Mention]] = defaultdict(set)

    def add_sentence(self, kind: str, text: str, sources: tuple[str, ...]) -> None:
        """Add a goal, a rule, a decision or an open item."""
        key = normalize(text)
        if (kind, key) in self._sentences:
            return
        self._sentences.add((kind, key))
        is_kept = key in self._prompt.text or self._says(kind, key)
        self.facts.append(Fact(kind, text, sources, "", _SENTENCE_WEIGHTS[kind], len(self.facts), is_kept))

    def add_file(self, path: str, sources: tuple[str, ...]) -> None:
        """Add a file that calls touched. Its name is then not a fact of its own."""
        keys = [key for key, entity_type in find_entities(path) if entity_type in ("path", "file")]
        is_kept = keys[0] in self._prompt.keys if keys else normalize(path) in self._prompt.text
        is_kept = is_kept or self._says("file", path)
        fact = Fact("file", path, sources, "", _SENTENCE_WEIGHTS["file"], len(self.facts), is_kept)
        self.facts.append(fact)
        self._by_key.update((key, fact) for key in keys)

    def add_blocks(self, blocks: Iterable[Block]) -> None:
        """Add the sentences and entities of blocks."""
        seen_lines: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for block in blocks:
            if isinstance(block.entry, FileTouched):
                continue
            seen = seen_lines[block.kind, block.field]
            for text in block.lines:
                if text in seen:
                    continue  # A repeated line adds no facts.
                seen.add(text)
                if (kind := _sentence_kind(text, block)) is not None:
                    self.add_sentence(kind, text, block.sources)
                self._add_entities(text, block)

    def _add_entities(self, text: str, block: Block) -> None:
        weight = _WEIGHT_SHOWN if block.kind in ("output", "record") else _WEIGHT_SAID
        seen = self._mentions[weight, block.kind in _PROSE_KINDS]
        for mention in find_entities(text) if len(text) <= _MAX_LINE_CHARS else scan_entities(text):
            if mention in seen:
                continue  # It adds nothing to the fact.
            seen.add(mention)
            key, entity_type = mention
            kind = _ENTITY_KINDS.get(entity_type)
            if kind is None:
                continue
            known = self._by_key.get(key)
            if known is None:
                # A number in the arguments of a call is rarely a fact. The next summary must not keep it as one.
                is_in_conversation = weight > _WEIGHT_SHOWN and (
                    entity_type not in NUMBER_TYPES or block.kind in _PROSE_KINDS
                )
                fact_weight, is_kept = weight * TYPE_WEIGHTS[entity_type], key in self._prompt.keys
                fact = Fact(kind, text, block.sources, key, fact_weight, len(self.facts), is_kept, is_in_conversation)
                self._by_key[key] = fact
                self.facts.append(fact)
            elif weight > _WEIGHT_SHOWN:
                known.weight = max(known.weight, weight * TYPE_WEIGHTS[entity_type])
                known.is_in_conversation |= entity_type not in NUMBER_TYPES or block.kind in _PROSE_KINDS


def kept_share(facts: Sequence[Fact], lost: Iterable[Fact]) -> float:
    """Return the weighted share of facts that are not lost."""
    total = sum(fact.weight for fact in facts)
    return round(1.0 - sum(fact.weight for fact in lost) / total, 4) if total else 1.0


def count_by_kind(
    facts: Iterable[Fact], lost: Iterable[Fact], restored: Iterable[Fact] = ()
) -> dict[str, dict[str, int]]:
    """Return the number of facts found, kept, restored and lost per kind."""
    totals, not_restored, repaired = (Counter(fact.kind for fact in group) for group in (facts, lost, restored))
    return {
        kind: {
            "found": totals[kind],
            "kept": totals[kind] - not_restored[kind] - repaired[kind],
            "restored": repaired[kind],
            "lost": not_restored[kind],
        }
        for kind in sorted(totals)
    }


def _sentence_kind(text: str, block: Block) -> str | None:
    if block.field in _KIND_BY_FIELD:
        return _KIND_BY_FIELD[block.field]
    if block.kind == "user" and is_instruction(text):
        return "constraint"
    return _KIND_BY_FIELD.get(summary_field(text, "prose")) if block.kind == "prose" and not block.field else None


def _all_text(message: Message) -> str:
    return "\n".join([message.text, *(f"{call.name} {call.arguments}" for call in message.tool_calls)])


# A normalized sentence is part of a normalized text exactly if it is part of this.
_lowered_words: Final = TextCache(lambda text: " ".join(text.split()).lower(), max_chars=4_000_000)
