"""From lines to a typed summary within a budget, and from a summary back to lines that compete again.

The one guarantee: the rendered text of what comes out has at most `max_tokens` tokens by the given count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from compact.messages import Message
from compact.messages.span import SpanReference
from compact.summarizers.extraction.assembly import assemble
from compact.summarizers.extraction.blocks import read_blocks
from compact.summarizers.extraction.coverage import Candidate, Reading, choose, missing_heads
from compact.summarizers.extraction.decision_context import Grounds
from compact.summarizers.extraction.entity_names import NAMES_SHARE, Names
from compact.summarizers.extraction.summary_blocks import summary_blocks
from compact.summary.entries import Note
from compact.summary.structured_summary import StructuredSummary

CountTokens = Callable[[str], int]

_HEADS_SHARE: Final = 0.02  # room for the calls that chosen lines of output answer
_NAME_TOKENS: Final = 2  # of a short one: leaving out as many as that says reaches the budget in a step or two
_MARK_TOKENS: Final = 1.5  # newline and, for some, a mark
_HEADROOM: Final = 1.15  # lines are chosen by estimate; a few too many are chosen and the last ones dropped by count


def estimate_tokens(text: str) -> int:
    """A count that needs no vocabulary: a little high on prose, about right on code and ids."""
    return round(len(text.encode("utf-8", "replace")) / 3.3) + 1


def fit(
    summary: StructuredSummary,
    *,
    max_tokens: int,
    visible: Sequence[Message] = (),
    count_tokens: CountTokens | None = None,
    keep_keys: Sequence[str] = (),
) -> StructuredSummary:
    """The summary cut to a budget: the lines worth most stay, word for word."""
    count = count_tokens or estimate_tokens
    if count(summary.render(version=999)) <= max_tokens:
        return summary
    reading = Reading(keep_keys, said=summary.said)
    reading.add(summary_blocks(summary))
    reading.add_visible(read_blocks(visible))
    return select(reading, span=summary.span, style=summary.style, max_tokens=max_tokens, count_tokens=count)


def select(
    reading: Reading,
    *,
    span: SpanReference | None,
    style: str,
    max_tokens: int,
    count_tokens: CountTokens,
    completed: Sequence[Note] = (),
    grounds: Grounds | None = None,
) -> StructuredSummary:
    """The best typed summary of what was read whose text fits."""
    choice = choose(reading, max_tokens * _HEADROOM)
    full = max_tokens - count_tokens(StructuredSummary(style=style).render(version=999)) - 1
    text = "\n".join(candidate.text for candidate in choice.chosen)
    tokens_per_char = count_tokens(text) / max(1, len(text))
    names = Names(reading, choice.chances)
    room = full * (1.0 - _HEADS_SHARE)
    room -= names.room(_prefix(choice.chosen, room - full * NAMES_SHARE, tokens_per_char), full)
    while True:
        kept = _prefix(choice.chosen, room, tokens_per_char)
        kept += _prefix(missing_heads(reading, kept), max_tokens * _HEADS_SHARE, tokens_per_char)
        summary = assemble(kept, span=span, style=style, completed=completed, grounds=grounds)
        used = count_tokens(summary.render(version=999))
        if used <= max_tokens or not kept:
            break
        # Headings and joins cost a little more than their lines: ask for less by as much as it was over, and a token.
        room -= used - max_tokens + 1
    summary = replace(summary, said=names.said_elsewhere(kept))
    listed = names.listed(kept, max_tokens - used, count_tokens)
    while listed:
        named = replace(summary, entities=(*summary.entities, *listed))
        over = count_tokens(named.render(version=999)) - max_tokens
        if over <= 0:
            return named
        listed = listed[: -max(1, over // _NAME_TOKENS)]
    return summary


def _prefix(chosen: Sequence[Candidate], room: float, tokens_per_char: float) -> list[Candidate]:
    kept: list[Candidate] = []
    for candidate in chosen:
        tokens = len(candidate.text) * tokens_per_char + (_MARK_TOKENS if candidate.field != "entities" else 0.0)
        if tokens <= room:
            room -= tokens
            kept.append(candidate)
    return kept
