"""Check by rule that a compaction kept the important facts, and restore those it lost.

Every constraint, id, number, path and open item of the removed messages is looked up in the new prompt. Missing facts
are restored within the budget or reported as lost. The plan is blocked if a standing instruction is still missing.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from compact.messages import Message
from compact.summarizers.extraction.blocks import Block, read_blocks
from compact.summarizers.extraction.entities import TYPE_WEIGHTS, find_entities, original_spelling
from compact.summarizers.extraction.entity_names import ROLE_LABELS
from compact.summarizers.extraction.line_classifier import is_instruction, is_open_item
from compact.summarizers.extraction.summary_blocks import message_blocks, summary_blocks
from compact.summarizers.extraction.summary_builder import CountTokens, estimate_tokens, fit, rendered_tokens
from compact.summary.entries import Entity, Note, OpenItem, normalize
from compact.summary.renderer import SAID
from compact.summary.structured_summary import StructuredSummary

MAX_LOST_LISTED: Final = 200  # The counts are complete. The list in the event has the most important lost facts.
_MAX_RESTORED: Final = 200
_HEADING_TOKENS: Final = 16  # the headings that restored facts may add
_MIN_FACT_TOKENS: Final = 4
# Facts that only appear in tool output are needed again far less often than those that were said.
_WEIGHT_SAID: Final = 1.0
_WEIGHT_SHOWN: Final = 0.15
_SENTENCE_WEIGHTS: Final = {"constraint": 2.0, "open_item": 0.5}
_KIND_BY_TYPE: Final[dict[str, str]] = {
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
    retention_pct: float
    """The weighted share of facts that were kept or restored. Facts that only a tool showed weigh less."""
    missing_constraints: tuple[str, ...]

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
    key: str  # empty if the fact is the whole sentence
    weight: float
    order: int
    is_kept: bool

    @property
    def fact(self) -> Fact:
        return Fact(self.kind, original_spelling(self.line, self.key) if self.key else self.line, self.sources)


def check(
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
    facts = _find_facts(blocks, rendered)
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
        retention_pct=_weighted_retention(facts, lost),
        missing_constraints=tuple(fact.line for fact in lost_by_weight if fact.kind == "constraint"),
    )


def _find_facts(blocks: Iterable[Block], rendered: Sequence[Message]) -> list[_TrackedFact]:
    """Return the distinct facts of the blocks, in order, and mark those that the rendered prompt contains."""
    rendered_text = normalize("\n".join(_all_text(message) for message in rendered))
    rendered_keys = {key for block in read_blocks(rendered) for text in block.lines for key, _ in find_entities(text)}
    facts: list[_TrackedFact] = []
    by_key: dict[str, _TrackedFact] = {}
    sentences: set[str] = set()
    seen_lines: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for block in blocks:
        weight = _WEIGHT_SHOWN if block.kind == "output" else _WEIGHT_SAID
        seen = seen_lines[block.kind, block.field]
        for text in block.lines:
            if text in seen:
                continue  # A repeated line adds no facts.
            seen.add(text)
            kind = _sentence_kind(text, block)
            if kind is not None and (key := normalize(text)) not in sentences:
                sentences.add(key)
                is_kept = key in rendered_text
                facts.append(_TrackedFact(kind, text, block.sources, "", _SENTENCE_WEIGHTS[kind], len(facts), is_kept))
            for key, entity_type in find_entities(text):
                if entity_type not in _KIND_BY_TYPE:
                    continue
                known = by_key.get(key)
                fact_weight = weight * TYPE_WEIGHTS[entity_type]
                if known is None:
                    kind, is_kept = _KIND_BY_TYPE[entity_type], key in rendered_keys
                    fact = _TrackedFact(kind, text, block.sources, key, fact_weight, len(facts), is_kept)
                    by_key[key] = fact
                    facts.append(fact)
                elif weight > _WEIGHT_SHOWN:
                    known.weight = max(known.weight, fact_weight)
    return facts


def _sentence_kind(text: str, block: Block) -> str | None:
    if block.kind == "user" and is_instruction(text):
        return "constraint"
    if block.field == "open_items" or (block.kind == "prose" and not block.field and is_open_item(text)):
        return "open_item"
    return None


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
    return summary, [fact for fact in (*constraints, *added) if normalize(fact.fact.text) in text]


def _add_fitting_facts(
    summary: StructuredSummary,
    missing: Sequence[_TrackedFact],
    next_order: int,
    max_tokens: int,
    count: CountTokens,
) -> tuple[StructuredSummary, list[_TrackedFact]]:
    """Add the most important facts that fit, as open items and entities."""
    room = max_tokens - rendered_tokens(summary, count) - _HEADING_TOKENS
    if room < _MIN_FACT_TOKENS:
        return summary, []
    known = {entity.key for entity in summary.entities}
    open_items: list[OpenItem] = []
    entities: list[Entity] = []
    added: list[_TrackedFact] = []
    for tracked in heapq.nsmallest(_MAX_RESTORED, missing, key=lambda fact: (-fact.weight, fact.order)):
        fact, order = tracked.fact, next_order + tracked.order
        tokens = count(fact.text) + 3
        if tokens > room or fact.text.lower() in known:
            continue
        room -= tokens
        added.append(tracked)
        if fact.kind == "open_item":
            open_items.append(OpenItem(fact.text, sources=fact.source_ids, order=order))
        else:
            entities.append(Entity(fact.text, f"{SAID} {ROLE_LABELS[fact.kind]}", fact.source_ids, order))
    extended = replace(summary, open_items=(*summary.open_items, *open_items), entities=(*summary.entities, *entities))
    if added and rendered_tokens(extended, count) <= max_tokens:
        return extended, added
    return summary, []


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
