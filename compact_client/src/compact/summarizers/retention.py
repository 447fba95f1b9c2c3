"""Check by rule that a compaction kept the important facts, and restore those it lost.

Every goal, constraint, decision, open item, file, id, number and path of the removed messages is looked up in the new
prompt. Missing facts are restored within the budget or reported as lost. The plan is blocked if a standing instruction
is still missing.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from compact.messages import Message
from compact.summarizers.extraction.blocks import Block, read_blocks
from compact.summarizers.extraction.entities import TYPE_WEIGHTS, Mention, find_entities, original_spelling
from compact.summarizers.extraction.entity_names import ROLE_LABELS
from compact.summarizers.extraction.line_classifier import is_instruction, summary_field
from compact.summarizers.extraction.span_index import NUMBER_TYPES
from compact.summarizers.extraction.state.file_ledger import read_ledger
from compact.summarizers.extraction.state.requests import request_positions, request_text
from compact.summarizers.extraction.summary_blocks import message_blocks, summary_blocks
from compact.summarizers.extraction.summary_builder import CountTokens, estimate_tokens, fit, rendered_tokens
from compact.summarizers.extraction.text_cache import TextCache
from compact.summary.entries import Decision, Entity, FileTouched, Note, OpenItem, normalize
from compact.summary.renderer import SAID, SHOWN
from compact.summary.structured_summary import StructuredSummary

MAX_LOST_LISTED: Final = 200  # The counts are complete. The list in the event has the most important lost facts.
_MAX_RESTORED: Final = 200
_HEADING_TOKENS: Final = 16  # the headings that restored facts may add
_MIN_FACT_TOKENS: Final = 4
_LINE_TOKENS: Final = 3  # a newline, and a marker
_NAME_TOKENS: Final = 1  # a separator
# Facts that only appear in tool output are needed again far less often than those that were said.
_WEIGHT_SAID: Final = 1.0
_WEIGHT_SHOWN: Final = 0.15
_PROSE_KINDS: Final = ("user", "prose")
_SENTENCE_WEIGHTS: Final = {"goal": 2.0, "constraint": 2.0, "decision": 0.5, "open_item": 0.5, "file": 1.0}
_KIND_BY_FIELD: Final = {
    "goals": "goal",
    "current_task": "goal",
    "decisions": "decision",
    "open_items": "open_item",
}
_WORD: Final = re.compile(r"[^\W_][\w./:-]{2,}")
_MIN_WORD_SHARE: Final = 0.75  # of the words of a sentence that one line of the summary has to contain
# The kind of fact for each type of entity. Entities of other types are not looked up.
FACT_KINDS: Final[dict[str, str]] = {
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


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact found in the removed messages."""

    kind: str
    text: str
    source_ids: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "text": self.text, "source_ids": list(self.source_ids)}


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """The repaired summary, and the facts that were kept, restored and lost."""

    summary: StructuredSummary
    by_kind: dict[str, dict[str, int]]
    lost: tuple[Fact, ...]
    restored: tuple[Fact, ...]
    weighted_retention: float
    """The weighted share of facts that were kept or restored. Facts that only a tool showed weigh less."""
    missing_constraints: tuple[str, ...]

    def total_count(self, *kinds: str) -> int:
        """Return the number of facts of these kinds that the removed messages contain, or of all kinds."""
        return sum(counts["found"] for kind, counts in self.by_kind.items() if not kinds or kind in kinds)

    def kept_count(self, *kinds: str) -> int:
        """Return the number of facts of these kinds that the new prompt contains, or of all kinds."""
        return self.total_count(*kinds) - sum(
            counts["lost"] for kind, counts in self.by_kind.items() if not kinds or kind in kinds
        )

    @property
    def is_blocking(self) -> bool:
        """True if the plan must not be committed because it lost a standing instruction."""
        return bool(self.missing_constraints)


@dataclass(slots=True)
class _TrackedFact:
    """A fact during the check. Its original spelling is only looked up if it is missing."""

    kind: str
    line: str
    sources: tuple[str, ...]
    key: str  # empty if the fact is the whole line
    weight: float
    order: int
    is_kept: bool
    is_in_conversation: bool = True  # False if only tool results contain it

    @property
    def fact(self) -> Fact:
        return Fact(self.kind, original_spelling(self.line, self.key) if self.key else self.line, self.sources)


def restore_lost_facts(
    removed: Sequence[Message],
    rendered: Sequence[Message],
    summary: StructuredSummary,
    *,
    max_tokens: int,
    count_tokens: Callable[[str], int] | None = None,
    previous: StructuredSummary | None = None,
) -> RetentionReport:
    """Look up the facts of `removed` in `rendered`, and restore missing ones to `summary` within `max_tokens`.

    `previous` is the summary before this one, if it is not among the removed messages.
    """
    blocks = [*(summary_blocks(previous) if previous else ()), *message_blocks(removed)]
    facts = _FactFinder(rendered, summary).find(blocks, removed)
    missing = [fact for fact in facts if not fact.is_kept]
    repaired, restored = _repair(summary, missing, max_tokens, count_tokens or estimate_tokens)
    restored_ids = {id(fact) for fact in restored}
    lost = [fact for fact in missing if id(fact) not in restored_ids]
    lost_by_weight = sorted(lost, key=lambda fact: (-fact.weight, fact.order))
    return RetentionReport(
        summary=repaired,
        by_kind=_count_by_kind(facts, missing, lost),
        lost=tuple(fact.fact for fact in lost_by_weight[:MAX_LOST_LISTED]),
        restored=tuple(fact.fact for fact in missing if id(fact) in restored_ids),
        weighted_retention=_weighted_retention(facts, lost),
        missing_constraints=tuple(fact.line for fact in lost_by_weight if fact.kind == "constraint"),
    )


class _FactFinder:
    """Finds the distinct facts of blocks, and marks those that the rendered prompt contains."""

    def __init__(self, rendered: Sequence[Message], summary: StructuredSummary) -> None:
        self._text = " ".join(filter(None, (_lowered_words[_all_text(message)] for message in rendered)))
        lines = {text for block in read_blocks(rendered) for text in block.lines}
        self._keys = {key for key, _ in set().union(*map(find_entities, lines))}
        self._keys.update(entity.key for entity in summary.entities)
        self._summary = summary
        self._facts: list[_TrackedFact] = []
        self._by_key: dict[str, _TrackedFact] = {}
        self._sentences: set[tuple[str, str]] = set()
        self._mentions: defaultdict[tuple[float, bool], set[Mention]] = defaultdict(set)

    @cached_property
    def _summary_lines(self) -> _SummaryLines:
        return _SummaryLines(self._summary)

    def find(self, blocks: Iterable[Block], removed: Sequence[Message]) -> list[_TrackedFact]:
        """Return the facts in order: goals, files, and then all others."""
        blocks = list(blocks)
        self._add_requests(removed, has_summary=any(block.entry is not None for block in blocks))
        self._add_files(blocks, removed)
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
                    self._add_sentence(kind, text, block.sources)
                self._add_entities(text, block)
        return self._facts

    def _add_requests(self, removed: Sequence[Message], *, has_summary: bool) -> None:
        """Add the first and the newest request. A summary that precedes the messages has the first one."""
        positions = request_positions(removed)
        for position in dict.fromkeys((*(() if has_summary else positions[:1]), *positions[-1:])):
            source = removed[position].id
            self._add_sentence("goal", request_text(removed[position]), (source,) if source else ())

    def _add_files(self, blocks: Iterable[Block], removed: Sequence[Message]) -> None:
        """Add the files that calls touched, and those of an earlier summary."""
        files = {block.entry.path: block.sources for block in blocks if isinstance(block.entry, FileTouched)}
        for file in read_ledger(removed):
            ids = (removed[position].id for position in file.positions)
            files.setdefault(file.path, tuple(dict.fromkeys(source for source in ids if source)))
        for path, sources in files.items():
            keys = [key for key, entity_type in find_entities(path) if entity_type in ("path", "file")]
            is_kept = keys[0] in self._keys if keys else normalize(path) in self._text
            fact = _TrackedFact("file", path, sources, "", _SENTENCE_WEIGHTS["file"], len(self._facts), is_kept)
            self._facts.append(fact)
            # The name of a file that was touched is not a fact of its own.
            self._by_key.update((key, fact) for key in keys)

    def _add_sentence(self, kind: str, text: str, sources: tuple[str, ...]) -> None:
        key = normalize(text)
        if (kind, key) in self._sentences:
            return
        self._sentences.add((kind, key))
        # An instruction has to survive word for word.
        is_kept = key in self._text or (kind != "constraint" and self._summary_lines.states(key))
        weight = _SENTENCE_WEIGHTS[kind]
        self._facts.append(_TrackedFact(kind, text, sources, "", weight, len(self._facts), is_kept))

    def _add_entities(self, text: str, block: Block) -> None:
        weight = _WEIGHT_SHOWN if block.kind in ("output", "record") else _WEIGHT_SAID
        seen = self._mentions[weight, block.kind in _PROSE_KINDS]
        for mention in find_entities(text):
            if mention in seen:
                continue  # It adds nothing to the fact.
            seen.add(mention)
            key, entity_type = mention
            kind = FACT_KINDS.get(entity_type)
            if kind is None:
                continue
            known = self._by_key.get(key)
            if known is None:
                # A number in the arguments of a call is rarely a fact. The next summary must not keep it as one.
                is_in_conversation = weight > _WEIGHT_SHOWN and (
                    entity_type not in NUMBER_TYPES or block.kind in _PROSE_KINDS
                )
                fact_weight, is_kept = weight * TYPE_WEIGHTS[entity_type], key in self._keys
                fact = _TrackedFact(
                    kind, text, block.sources, key, fact_weight, len(self._facts), is_kept, is_in_conversation
                )
                self._by_key[key] = fact
                self._facts.append(fact)
            elif weight > _WEIGHT_SHOWN:
                known.weight = max(known.weight, weight * TYPE_WEIGHTS[entity_type])
                known.is_in_conversation |= entity_type not in NUMBER_TYPES or block.kind in _PROSE_KINDS


class _SummaryLines:
    """The words of each line of a summary."""

    def __init__(self, summary: StructuredSummary) -> None:
        self._lines_by_word: defaultdict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(summary.render_as_message().lower().split("\n")):
            for word in set(_WORD.findall(line)):
                self._lines_by_word[word].append(number)

    def states(self, sentence: str) -> bool:
        """True if one line has most words of a sentence, as in a ledger line or a paraphrase."""
        words = set(_WORD.findall(sentence))
        if not words:
            return False
        counts = Counter(number for word in words for number in self._lines_by_word.get(word, ()))
        return bool(counts) and max(counts.values()) >= _MIN_WORD_SHARE * len(words)


def _sentence_kind(text: str, block: Block) -> str | None:
    if block.field in _KIND_BY_FIELD:
        return _KIND_BY_FIELD[block.field]
    if block.kind == "user" and is_instruction(text):
        return "constraint"
    return _KIND_BY_FIELD.get(summary_field(text, "prose")) if block.kind == "prose" and not block.field else None


def _repair(
    summary: StructuredSummary, missing: Sequence[_TrackedFact], max_tokens: int, count: CountTokens
) -> tuple[StructuredSummary, list[_TrackedFact]]:
    """Restore missing facts and return the repaired summary with the facts that it now contains.

    Instructions may displace less valuable lines. All other facts are only restored where they fit.
    """
    if not missing:
        return summary, []
    next_order = 1 + max((entry.order for entry in summary.entries()), default=-1)
    constraints = [fact for fact in missing if fact.kind == "constraint"]
    others = [fact for fact in missing if fact.kind != "constraint"]
    if constraints:
        notes = [Note(fact.line, fact.sources, next_order + fact.order, "user") for fact in constraints]
        extended = replace(summary, constraints=(*summary.constraints, *notes))
        summary = fit(extended, max_tokens=max_tokens, count_tokens=count)
    summary, added = _add_fitting_facts(summary, others, next_order, max_tokens, count)
    if not constraints and not added:
        return summary, []
    text = normalize(summary.render())
    return summary, [fact for fact in (*constraints, *added) if _shown_text(fact) in text]


def _shown_text(fact: _TrackedFact) -> str:
    """Return the part of a fact that the summary shows in every style."""
    if fact.kind == "file":
        return normalize(fact.line.rpartition("/")[2])  # Files are listed relative to a directory.
    if fact.kind == "decision":
        return normalize(Decision.from_sentence(fact.line).decision)
    return normalize(fact.fact.text)


def _add_fitting_facts(
    summary: StructuredSummary,
    missing: Sequence[_TrackedFact],
    next_order: int,
    max_tokens: int,
    count: CountTokens,
) -> tuple[StructuredSummary, list[_TrackedFact]]:
    """Add the most important facts that fit, as entries of their kind."""
    room = max_tokens - rendered_tokens(summary, count) - _HEADING_TOKENS
    if room < _MIN_FACT_TOKENS:
        return summary, []
    known = {entity.key for entity in summary.entities}
    added: list[_TrackedFact] = []
    for tracked in heapq.nsmallest(_MAX_RESTORED, missing, key=lambda fact: (-fact.weight, fact.order)):
        text = tracked.fact.text
        tokens = count(text) + (_NAME_TOKENS if tracked.key else _LINE_TOKENS)
        if tokens <= room and text.lower() not in known:
            room -= tokens
            added.append(tracked)
    while added:
        extended = _with_facts(summary, added, next_order)
        excess_tokens = rendered_tokens(extended, count) - max_tokens
        if excess_tokens <= 0:
            return extended, added
        # Separators and labels are not exact. Leave out the least important facts.
        added = added[: -(1 + excess_tokens // _MIN_FACT_TOKENS)]
    return summary, []


def _with_facts(summary: StructuredSummary, facts: Iterable[_TrackedFact], next_order: int) -> StructuredSummary:
    entries: defaultdict[str, list[Any]] = defaultdict(list)
    for tracked in facts:
        field, entry = _entry(tracked.fact, next_order + tracked.order, SAID if tracked.is_in_conversation else SHOWN)
        entries[field].append(entry)
    changes: dict[str, Any] = {name: (*getattr(summary, name), *items) for name, items in entries.items()}
    return replace(summary, **changes)


def _entry(fact: Fact, order: int, origin: str) -> tuple[str, Any]:
    """Return the summary field of a fact and its entry."""
    if fact.kind == "goal":
        return "goals", Note(fact.text, fact.source_ids, order, "user")
    if fact.kind == "decision":
        return "decisions", Decision.from_sentence(fact.text, sources=fact.source_ids, order=order)
    if fact.kind == "open_item":
        return "open_items", OpenItem(fact.text, sources=fact.source_ids, order=order)
    label = "files" if fact.kind == "file" else ROLE_LABELS[fact.kind]
    return "entities", Entity(fact.text, f"{origin} {label}", fact.source_ids, order)


def _count_by_kind(
    facts: Sequence[_TrackedFact], missing: Sequence[_TrackedFact], lost: Sequence[_TrackedFact]
) -> dict[str, dict[str, int]]:
    total, not_kept, not_restored = (Counter(fact.kind for fact in group) for group in (facts, missing, lost))
    return {
        kind: {
            "found": total[kind],
            "kept": total[kind] - not_kept[kind],
            "restored": not_kept[kind] - not_restored[kind],
            "lost": not_restored[kind],
        }
        for kind in sorted(total)
    }


def _weighted_retention(facts: Sequence[_TrackedFact], lost: Sequence[_TrackedFact]) -> float:
    total = sum(fact.weight for fact in facts)
    return round(1.0 - sum(fact.weight for fact in lost) / total, 4) if total else 1.0


def _all_text(message: Message) -> str:
    return "\n".join([message.text, *(f"{call.name} {call.arguments}" for call in message.tool_calls)])


# A normalized sentence is part of a normalized text exactly if it is part of this.
_lowered_words: Final = TextCache(lambda text: " ".join(text.split()).lower(), max_chars=4_000_000)
