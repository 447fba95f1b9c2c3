"""Check, by rule and without a model, that a compaction kept what it must, and put back what it did not.

Every constraint, id, number, path and open item of the removed messages is looked up in the new prompt. What is
missing is restored within the budget or listed as lost; a user's standing instruction that is still missing blocks.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from compact.messages import Message
from compact.summarizers.extraction.blocks import Block, read_blocks
from compact.summarizers.extraction.entities import TYPE_WEIGHTS, find_entities, surface
from compact.summarizers.extraction.entity_names import SORTS
from compact.summarizers.extraction.line_classifier import is_instruction, is_open_item
from compact.summarizers.extraction.selection import estimate_tokens, fit
from compact.summarizers.extraction.summary_blocks import blocks_of, summary_blocks
from compact.summary.entries import Entity, Note, OpenItem, normalized
from compact.summary.renderer import SAID
from compact.summary.structured_summary import StructuredSummary

LOST_LISTED: Final = 200  # the counts are complete; the list in the event is of what is likeliest to be missed
_RESTORED: Final = 200
# What only a tool ever showed is needed again far less often than what somebody said or passed on.
_WEIGHT_SAID: Final = 1.0
_WEIGHT_SHOWN: Final = 0.15
_SENTENCE_WEIGHT: Final = {"constraint": 2.0, "open_item": 0.5}
_KINDS: Final[dict[str, str]] = {
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
class Finding:
    """Something found in the removed messages."""

    kind: str
    text: str
    source_ids: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "text": self.text, "source_ids": list(self.source_ids)}


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """What was looked for, what is there, what was put back and what is lost."""

    summary: StructuredSummary
    by_kind: dict[str, dict[str, int]]
    lost: tuple[Finding, ...]
    restored: tuple[Finding, ...]
    retention_pct: float
    """The share of what was found that is still there; what only a tool showed weighs less than what was said."""
    missing_constraints: tuple[str, ...]

    @property
    def is_blocking(self) -> bool:
        """True if the plan must not be committed because it lost a standing instruction."""
        return bool(self.missing_constraints)


@dataclass(slots=True)
class _Item:
    """Something found; how it is written is only looked up for what is missing."""

    kind: str
    line: str
    sources: tuple[str, ...]
    key: str  # empty for a whole sentence
    weight: float
    order: int
    is_kept: bool

    @property
    def finding(self) -> Finding:
        return Finding(self.kind, surface(self.line, self.key) if self.key else self.line, self.sources)


def check(
    removed: Sequence[Message],
    rendered: Sequence[Message],
    summary: StructuredSummary,
    *,
    max_tokens: int,
    count_tokens: Callable[[str], int] | None = None,
    previous: StructuredSummary | None = None,
) -> RetentionReport:
    """Look up in `rendered` what stood in `removed`, and repair `summary` within `max_tokens` where it falls short.

    `previous` is the summary that this one follows, where it does not stand among the removed messages.
    """
    count = count_tokens or estimate_tokens
    items = _look_up([*(summary_blocks(previous) if previous else ()), *blocks_of(removed)], rendered)
    missing = [item for item in items if not item.is_kept]
    repaired, tried = _repaired(summary, missing, max_tokens, count) if missing else (summary, [])
    text = normalized(repaired.render()) if tried else ""
    restored = {id(item) for item in tried if normalized(item.finding.text) in text}
    lost = [item for item in missing if id(item) not in restored]
    found, not_kept, not_there = (Counter(item.kind for item in some) for some in (items, missing, lost))
    by_kind = {
        kind: {
            "found": found[kind],
            "kept": found[kind] - not_kept[kind],
            "restored": not_kept[kind] - not_there[kind],
            "lost": not_there[kind],
        }
        for kind in sorted(found)
    }
    total = sum(item.weight for item in items)
    gone = sum(item.weight for item in lost)
    lost.sort(key=lambda item: (-item.weight, item.order))
    return RetentionReport(
        summary=repaired,
        by_kind=by_kind,
        lost=tuple(item.finding for item in lost[:LOST_LISTED]),
        restored=tuple(item.finding for item in missing if id(item) in restored),
        retention_pct=round(1.0 - gone / total, 4) if total else 1.0,
        missing_constraints=tuple(item.line for item in lost if item.kind == "constraint"),
    )


def _look_up(blocks: Iterable[Block], rendered: Sequence[Message]) -> list[_Item]:
    whole = normalized("\n".join(_all_text(message) for message in rendered))
    visible = {key for block in read_blocks(rendered) for text in block.lines for key, _ in find_entities(text)}
    items: list[_Item] = []
    known: dict[str, _Item] = {}
    sentences: set[str] = set()
    read: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for block in blocks:
        weight = _WEIGHT_SHOWN if block.kind == "output" else _WEIGHT_SAID
        read_before = read[block.kind, block.field]
        for text in block.lines:
            if text in read_before:
                continue  # what was said before finds nothing new
            read_before.add(text)
            kind = _sentence_kind(text, block)
            if kind is not None and (key := normalized(text)) not in sentences:
                sentences.add(key)
                items.append(_Item(kind, text, block.sources, "", _SENTENCE_WEIGHT[kind], len(items), key in whole))
            for key, sort in find_entities(text):
                if sort not in _KINDS:
                    continue
                before = known.get(key)
                worth = weight * TYPE_WEIGHTS[sort]
                if before is None:
                    item = _Item(_KINDS[sort], text, block.sources, key, worth, len(items), key in visible)
                    known[key] = item
                    items.append(item)
                elif weight > _WEIGHT_SHOWN:
                    before.weight = max(before.weight, worth)
    return items


def _sentence_kind(text: str, block: Block) -> str | None:
    if block.kind == "user" and is_instruction(text):
        return "constraint"
    if block.field == "open_items" or (block.kind == "prose" and not block.field and is_open_item(text)):
        return "open_item"
    return None


def _repaired(
    summary: StructuredSummary, missing: Sequence[_Item], max_tokens: int, count: Callable[[str], int]
) -> tuple[StructuredSummary, list[_Item]]:
    """The summary with what is missing put back: instructions at the cost of lesser lines, the rest where it fits."""
    order = 1 + max((entry.order for entry in summary.entries()), default=-1)
    tried = [item for item in missing if item.kind == "constraint"]
    if tried:
        notes = [Note(item.finding.text, item.finding.source_ids, order + item.order, "user") for item in tried]
        summary = fit(
            replace(summary, constraints=(*summary.constraints, *notes)), max_tokens=max_tokens, count_tokens=count
        )
    room = max_tokens - count(summary.render(version=999)) - 16
    rest = [item for item in missing if item.kind != "constraint"] if room >= 4 else []
    known = {entity.key for entity in summary.entities}
    open_items: list[OpenItem] = []
    names: list[Entity] = []
    put_back: list[_Item] = []
    for item in heapq.nsmallest(_RESTORED, rest, key=lambda item: (-item.weight, item.order)):
        finding = item.finding
        cost = count(finding.text) + 3
        if cost > room or finding.text.lower() in known:
            continue
        room -= cost
        put_back.append(item)
        if finding.kind == "open_item":
            open_items.append(OpenItem(finding.text, sources=finding.source_ids, order=order + item.order))
        else:
            names.append(Entity(finding.text, f"{SAID} {SORTS[finding.kind]}", finding.source_ids, order + item.order))
    repaired = replace(summary, open_items=(*summary.open_items, *open_items), entities=(*summary.entities, *names))
    if put_back and count(repaired.render(version=999)) <= max_tokens:
        return repaired, tried + put_back
    return summary, tried


def _all_text(message: Message) -> str:
    return "\n".join([message.text, *(f"{call.name} {call.arguments}" for call in message.tool_calls)])
