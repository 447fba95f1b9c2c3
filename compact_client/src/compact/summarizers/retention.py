"""Check by rule that a compaction kept the important facts, and restore those it lost.

Every goal, constraint, decision, open item, file, id, number and path of the removed messages is looked up in the new
prompt. Missing sentences are restored within the budget, and other facts are reported as lost. The plan is blocked if a
standing instruction is still missing.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from compact.messages import Message
from compact.reading.blocks import Block
from compact.reading.facts import MAX_LOST_LISTED, Fact, FactFinder, PromptText, count_by_kind, kept_share
from compact.reading.line_words import LineWords, words
from compact.reading.state.file_ledger import read_ledger
from compact.reading.state.requests import request_positions, request_text
from compact.reading.summary_blocks import message_blocks, summary_blocks
from compact.reading.tokens import CountTokens, estimate_tokens
from compact.summarizers.extraction.summary_builder import fit, rendered_tokens
from compact.summary.entries import Decision, FileTouched, Note, OpenItem, normalize
from compact.summary.structured_summary import StructuredSummary

_MAX_LINE_CHARS: Final = 320  # of a sentence that is restored because it mentions a lost name
_MAX_RESTORED: Final = 200
_HEADING_TOKENS: Final = 16  # the headings that restored facts may add
_MIN_FACT_TOKENS: Final = 4
_LINE_TOKENS: Final = 3  # a newline, and a marker
_MIN_WORD_SHARE: Final = 0.75  # of the words of a sentence that one line of the summary has to contain


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
    facts = _find_facts(blocks, removed, rendered, summary)
    missing = [fact for fact in facts if not fact.is_kept]
    repaired, restored = _repair(summary, missing, max_tokens, count_tokens or estimate_tokens)
    restored_ids = {id(fact) for fact in restored}
    lost = sorted((fact for fact in missing if id(fact) not in restored_ids), key=lambda fact: (fact.rank, fact.order))
    return RetentionReport(
        summary=repaired,
        by_kind=count_by_kind(facts, lost, restored),
        lost=tuple(lost[:MAX_LOST_LISTED]),
        restored=tuple(fact for fact in missing if id(fact) in restored_ids),
        weighted_retention=kept_share(facts, lost),
        missing_constraints=tuple(fact.line for fact in lost if fact.kind == "constraint"),
    )


class _SummaryWords:
    """Says if the summary states a sentence in other words. An instruction has to survive word for word."""

    def __init__(self, summary: StructuredSummary) -> None:
        self._summary = summary

    def says(self, kind: str, text: str) -> bool:
        return kind not in ("constraint", "file") and self._words.has(text)

    @cached_property
    def _words(self) -> LineWords:
        return LineWords(self._summary.render_as_message().split("\n"), split=words, min_share=_MIN_WORD_SHARE)


def _find_facts(
    blocks: Sequence[Block], removed: Sequence[Message], rendered: Sequence[Message], summary: StructuredSummary
) -> list[Fact]:
    """Return the facts in order: requests, files, and then all others."""
    prompt = PromptText(rendered)
    prompt.keys.update(entity.key for entity in summary.entities)
    finder = FactFinder(prompt, _SummaryWords(summary).says)
    # A summary that precedes the messages has the first request.
    has_summary = any(block.entry is not None for block in blocks)
    positions = request_positions(removed)
    for position in dict.fromkeys((*(() if has_summary else positions[:1]), *positions[-1:])):
        source = removed[position].id
        finder.add_sentence("goal", request_text(removed[position]), (source,) if source else ())
    files = {block.entry.path: block.sources for block in blocks if isinstance(block.entry, FileTouched)}
    for file in read_ledger(removed):
        files.setdefault(file.path, file.sources(removed))
    for path, sources in files.items():
        finder.add_file(path, sources)
    finder.add_blocks(blocks)
    return finder.facts


def _repair(
    summary: StructuredSummary, missing: Sequence[Fact], max_tokens: int, count: CountTokens
) -> tuple[StructuredSummary, list[Fact]]:
    """Restore missing facts and return the repaired summary with the facts that it now contains.

    Instructions may displace less valuable lines. All other facts are only restored where they fit.
    """
    if not missing:
        return summary, []
    next_order = summary.next_order
    constraints = [fact for fact in missing if fact.kind == "constraint"]
    if constraints:
        notes = [Note(fact.line, fact.source_ids, next_order + fact.order, "user") for fact in constraints]
        extended = replace(summary, constraints=(*summary.constraints, *notes))
        summary = fit(extended, max_tokens=max_tokens, count_tokens=count)
    others = list(filter(_is_restorable, missing))
    summary, added = _add_fitting_facts(summary, others, next_order, max_tokens, count)
    if not constraints and not added:
        return summary, []
    text = normalize(summary.render())
    return summary, [fact for fact in (*constraints, *added) if _shown_text(fact) in text]


def _shown_text(fact: Fact) -> str:
    """Return the part of a fact that the summary shows in every style."""
    if fact.kind == "decision":
        return normalize(Decision.from_sentence(fact.line).decision)
    return normalize(fact.text)


def _add_fitting_facts(
    summary: StructuredSummary,
    missing: Sequence[Fact],
    next_order: int,
    max_tokens: int,
    count: CountTokens,
) -> tuple[StructuredSummary, list[Fact]]:
    """Add the most important facts that fit, as entries of their kind."""
    room = max_tokens - rendered_tokens(summary, count) - _HEADING_TOKENS
    if room < _MIN_FACT_TOKENS:
        return summary, []
    added: list[Fact] = []
    lines: set[str] = set()
    for tracked in heapq.nsmallest(_MAX_RESTORED, missing, key=lambda fact: (-fact.weight, fact.order)):
        tokens = 0 if tracked.key and tracked.line in lines else count(tracked.line) + _LINE_TOKENS
        if tokens <= room:
            lines.add(tracked.line)
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


def _with_facts(summary: StructuredSummary, facts: Iterable[Fact], next_order: int) -> StructuredSummary:
    entries: defaultdict[str, list[Any]] = defaultdict(list)
    for tracked in facts:
        field, entry = _entry(tracked, next_order + tracked.order)
        if entry.key not in {known.key for known in entries[field]}:
            entries[field].append(entry)
    changes: dict[str, Any] = {name: (*getattr(summary, name), *items) for name, items in entries.items()}
    return replace(summary, **changes)


def _entry(fact: Fact, order: int) -> tuple[str, Any]:
    """Return the summary field of a fact and its entry."""
    if fact.kind == "goal":
        return "goals", Note(fact.text, fact.source_ids, order, "user")
    if fact.kind == "decision":
        return "decisions", Decision.from_sentence(fact.text, sources=fact.source_ids, order=order)
    if fact.kind == "open_item":
        return "open_items", OpenItem(fact.text, sources=fact.source_ids, order=order)
    return "facts", Note(fact.line, fact.source_ids, order)


def _is_restorable(fact: Fact) -> bool:
    """True for a sentence, and for a name in a short one. A name alone says too little."""
    if not fact.key:
        return fact.kind not in ("file", "constraint")
    return fact.is_in_conversation and len(fact.line) <= _MAX_LINE_CHARS
