"""Build a typed summary whose rendered text fits a token budget.

Guarantee: the rendered summary has at most `max_tokens` tokens, as measured by the given counter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from compact.messages import Message
from compact.messages.span import SpanReference
from compact.summarizers.extraction.assembly import assemble
from compact.summarizers.extraction.blocks import read_blocks
from compact.summarizers.extraction.coverage import missing_call_lines, select_lines
from compact.summarizers.extraction.decision_context import DecisionContexts
from compact.summarizers.extraction.entity_names import NAMES_SHARE, EntityNames
from compact.summarizers.extraction.span_index import Candidate, SpanIndex
from compact.summarizers.extraction.summary_blocks import summary_blocks
from compact.summary.entries import Entity, Note
from compact.summary.structured_summary import StructuredSummary

CountTokens = Callable[[str], int]

_CALLS_SHARE: Final = 0.02  # of the budget, for the calls that produced selected output
_NAME_TOKENS: Final = 2  # a low estimate per name, so that trimming the name list takes only a step or two
_MARKER_TOKENS: Final = 1.5  # a newline and, for some lines, a marker
_OVERSELECTION: Final = (
    1.15  # Lines are selected by estimated size. Select a few more and drop the last by exact count.
)
_WIDEST_VERSION: Final = 999  # measure with a three-digit version number, so that a later version still fits


def estimate_tokens(text: str) -> int:
    """Estimate the token count without a vocabulary: slightly high for prose, about right for code and ids."""
    return round(len(text.encode("utf-8", "replace")) / 3.3) + 1


def rendered_tokens(summary: StructuredSummary, count_tokens: CountTokens) -> int:
    """Count the tokens of the rendered summary message."""
    return count_tokens(summary.render(version=_WIDEST_VERSION))


def fit(
    summary: StructuredSummary,
    *,
    max_tokens: int,
    visible: Sequence[Message] = (),
    count_tokens: CountTokens | None = None,
    keep_keys: Sequence[str] = (),
) -> StructuredSummary:
    """Reduce a summary to a token budget by keeping its most valuable lines verbatim."""
    count = count_tokens or estimate_tokens
    if rendered_tokens(summary, count) <= max_tokens:
        return summary
    index = SpanIndex(keep_keys, said=summary.said)
    index.add(summary_blocks(summary))
    index.add_visible(read_blocks(visible))
    return build_summary(index, span=summary.span, style=summary.style, max_tokens=max_tokens, count_tokens=count)


def build_summary(
    index: SpanIndex,
    *,
    span: SpanReference | None,
    style: str,
    max_tokens: int,
    count_tokens: CountTokens,
    completed: Sequence[Note] = (),
    contexts: DecisionContexts | None = None,
) -> StructuredSummary:
    """Build the most valuable summary of the indexed lines that fits the budget."""
    selection = select_lines(index, max_tokens * _OVERSELECTION)
    body_tokens = max_tokens - rendered_tokens(StructuredSummary(style=style), count_tokens) - 1
    text = "\n".join(line.text for line in selection.lines)
    tokens_per_char = count_tokens(text) / max(1, len(text))
    names = EntityNames(index, selection.reuse_scores)
    room = body_tokens * (1.0 - _CALLS_SHARE)
    likely_lines = _fitting_lines(selection.lines, room - body_tokens * NAMES_SHARE, tokens_per_char)
    room -= names.reserved_tokens(likely_lines, body_tokens)
    while True:
        lines = _fitting_lines(selection.lines, room, tokens_per_char)
        lines += _fitting_lines(missing_call_lines(index, lines), max_tokens * _CALLS_SHARE, tokens_per_char)
        summary = assemble(lines, span=span, style=style, completed=completed, contexts=contexts)
        used_tokens = rendered_tokens(summary, count_tokens)
        if used_tokens <= max_tokens or not lines:
            break
        # Headings and separators add to the estimated sizes. Retry with the excess subtracted.
        room -= used_tokens - max_tokens + 1
    summary = replace(summary, said=names.said_but_only_shown(lines))
    return _with_names(summary, names.select(lines, max_tokens - used_tokens, count_tokens), max_tokens, count_tokens)


def _fitting_lines(lines: Sequence[Candidate], room: float, tokens_per_char: float) -> list[Candidate]:
    fitting: list[Candidate] = []
    for line in lines:
        tokens = len(line.text) * tokens_per_char + (_MARKER_TOKENS if line.field != "entities" else 0.0)
        if tokens <= room:
            room -= tokens
            fitting.append(line)
    return fitting


def _with_names(
    summary: StructuredSummary, names: list[Entity], max_tokens: int, count_tokens: CountTokens
) -> StructuredSummary:
    """Add as many of the names as fit, in order."""
    while names:
        extended = replace(summary, entities=(*summary.entities, *names))
        excess_tokens = rendered_tokens(extended, count_tokens) - max_tokens
        if excess_tokens <= 0:
            return extended
        names = names[: -max(1, excess_tokens // _NAME_TOKENS)]
    return summary
