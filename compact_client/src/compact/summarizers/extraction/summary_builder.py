"""Build a typed summary whose rendered text fits a token budget.

Guarantee: the rendered summary has at most `max_tokens` tokens, as measured by the given counter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from compact.messages import Message
from compact.messages.span import SpanReference
from compact.reading.blocks import read_blocks
from compact.reading.summary_blocks import reserve_blocks
from compact.reading.tokens import CountTokens, estimate_tokens
from compact.summarizers.extraction.assembly import Assembler
from compact.summarizers.extraction.coverage import select_lines
from compact.summarizers.extraction.entity_usage import CHARS_PER_TOKEN
from compact.summarizers.extraction.span_index import Candidate, SpanIndex
from compact.summarizers.extraction.state.decision_context import DecisionContexts
from compact.summary.entries import Note
from compact.summary.record_tree import shown_text
from compact.summary.structured_summary import StructuredSummary

_MARKER_TOKENS: Final = 1.5  # a newline and, for some lines, a marker
# Lines are selected by estimated size, and those of one call or directory are shorter together. Select more, and drop
# the last by exact count.
_OVERSELECTION: Final = 0.3
_SAMPLE_LINES: Final = 100
_FIT_ATTEMPTS: Final = 4
_MIN_FILL: Final = 0.985
_GROWTH: Final = 0.9
# What one compaction has no room for, the next one may have. A large message in the prompt must not erase the memory.
_RESERVE_TOKENS: Final = 8_000
_WIDEST_VERSION: Final = 999  # measure with a three-digit version number, so that a later version still fits


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
    index = SpanIndex(keep_keys, mentions=summary.mentions, continues_summary=True)
    index.add(reserve_blocks(summary))
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
    # Lines are selected by estimated size, which is low for code and high for prose.
    scale = _chars_per_token(index, count_tokens) / CHARS_PER_TOKEN
    spare_tokens = max(max_tokens * _OVERSELECTION, _RESERVE_TOKENS - max_tokens)
    selection = select_lines(index, max_tokens * scale, spare_tokens=spare_tokens * scale)
    text = "\n".join(line.text for line in selection)
    tokens_per_char = count_tokens(text) / max(1, len(text))
    room: float = max_tokens - rendered_tokens(StructuredSummary(style=style), count_tokens) - 1
    assembler, sizes = Assembler(style, contexts), _line_sizes(selection, tokens_per_char)
    lines, summary, used_tokens = [], StructuredSummary(span=span, style=style, completed=tuple(completed)), 0
    for attempt in itertools.count(1):
        fitting = _fitting_lines(selection, sizes, room)
        draft = assembler.assemble(fitting, span=span, completed=completed)
        tokens = rendered_tokens(draft, count_tokens)
        if used_tokens < tokens <= max_tokens:
            lines, summary, used_tokens = fitting, draft, tokens
        is_full = _MIN_FILL * max_tokens <= tokens <= max_tokens or len(fitting) == len(selection)
        if not fitting or (used_tokens and (is_full or attempt >= _FIT_ATTEMPTS)):
            break
        room = _next_room(room, max_tokens - tokens)
    others = _lines_beside(lines, selection)
    return replace(
        summary,
        mentions=index.unshown_mentions(selection),
        reserve=assembler.assemble(others, span=None) if others else None,
    )


def _next_room(room: float, free_tokens: int) -> float:
    """Return the room for the next attempt. Headings, separators and the estimated sizes are not exact."""
    if free_tokens >= 0:
        return room + free_tokens * _GROWTH
    # Lines with a long context, such as those of a decision log, can exceed the room by more than all of it.
    return max(room + free_tokens - 1, room / 2)


def _lines_beside(kept: Iterable[Candidate], lines: Iterable[Candidate]) -> list[Candidate]:
    """Return the lines that are not kept."""
    orders = {line.order for line in kept}
    return [line for line in lines if line.order not in orders]


def _chars_per_token(index: SpanIndex, count_tokens: CountTokens) -> float:
    lines = index.candidates[:: 1 + len(index.candidates) // _SAMPLE_LINES]
    text = "\n".join(line.text for line in lines)
    return len(text) / count_tokens(text) if text else CHARS_PER_TOKEN


def _line_sizes(lines: Sequence[Candidate], tokens_per_char: float) -> list[float]:
    """Return the estimated tokens of each line and its separator."""
    return [len(shown_text(line.text, line.block.parent)) * tokens_per_char + _MARKER_TOKENS for line in lines]


def _fitting_lines(lines: Sequence[Candidate], sizes: Sequence[float], room: float) -> list[Candidate]:
    """Return the first lines that fit."""
    fitting, left = [], room
    for line, tokens in zip(lines, sizes, strict=True):
        if tokens <= left:
            left -= tokens
            fitting.append(line)
    return fitting
