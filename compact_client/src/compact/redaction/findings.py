"""A secret or personal data in a text, and the mask that replaces it.

A finding is the unit on which everything else is built: counts per rule, masks, and placeholders that the process can
turn back into the original. It holds the secret itself, so it must never leave the process. Its `repr` omits the value.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Literal, NamedTuple

Kind = Literal["secret", "pii", "custom"]

MASK = "<REDACTED>"
MASKED = re.compile(r"<REDACTED(?::[\w.:-]{1,80})?>")
"""The mask or a placeholder, such as `<REDACTED:email-3>`. Text of this form is never redacted again."""

BOUNDARY = "\x1e"
"""Separates the parts of a message while they are searched as one text."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A span of a text that must be replaced.

    `start` and `end` count characters of the part with index `part`. A secret that continues in the next part has one
    finding per part with the same `group`. Findings never overlap.
    """

    start: int
    end: int
    rule: str
    kind: Kind
    value: str = field(repr=False)
    part: int = 0
    group: int = 0
    quote: str = ""
    """The quote to put around the mask of an unquoted JSON value, such as `1234` in `{"pin": 1234}`."""


Replace = Callable[[Finding], str]
"""Returns the text that replaces a finding. It must match `MASKED`, so that redacting again changes nothing."""


def mask(_: Finding) -> str:
    """Replace every finding with the same mask."""
    return MASK


def is_masked(text: str, start: int, end: int) -> bool:
    """True if a span is a mask or inside one."""
    opening = text.rfind("<", start - 90 if start > 90 else 0, start + 1)
    if opening < 0:
        return False
    match = MASKED.match(text, opening)
    return match is not None and end <= match.end()


class Span(NamedTuple):
    """A match of a rule in a text."""

    start: int
    end: int
    rule: str
    kind: Kind
    quote: str = ""


def merge(spans: Iterable[Span]) -> list[Span]:
    """Sort spans and join those that overlap. The rule of the first and longest one names the result."""
    merged: list[Span] = []
    end = -1
    for span in sorted(spans, key=itemgetter(0)):
        if span.start >= end:
            merged.append(span)
        elif span.end <= end:
            continue
        elif span.start == merged[-1].start:
            merged[-1] = span
        else:
            merged[-1] = merged[-1]._replace(end=span.end, quote="")
        end = span.end
    return merged


def split_at_boundaries(text: str, spans: Iterable[Span]) -> Iterator[tuple[Span, int]]:
    """Yield spans that contain no boundary, each with the number of the span that it is a piece of."""
    for number, span in enumerate(spans):
        start = span.start
        while (boundary := text.find(BOUNDARY, start, span.end)) >= 0:
            if boundary > start:
                yield span._replace(start=start, end=boundary), number
            start = boundary + 1
        if start < span.end:
            yield span if start == span.start else span._replace(start=start), number


class MaskedText:
    """A text with masked spans that maps positions back to the original text."""

    def __init__(self, text: str, spans: Sequence[Span]) -> None:
        self._spans = spans
        ends = [0, *(span.end for span in spans)]
        kept = [text[end : span.start] for end, span in zip(ends, spans, strict=False)]
        self._mask_starts = [end + index * len(MASK) for index, end in enumerate(accumulate(map(len, kept)))]
        self.text = MASK.join([*kept, text[ends[-1] :]])

    def surroundings(self, distance: int) -> list[tuple[int, int]]:
        """Return the ranges of the masked text that are at most `distance` characters from a mask."""
        starts, gap = self._mask_starts, 2 * distance + len(MASK)
        if not starts:
            return []
        groups = [
            0,
            *(index for index in range(1, len(starts)) if starts[index] - starts[index - 1] > gap),
            len(starts),
        ]
        return [
            (max(0, starts[first] - distance), starts[following - 1] + len(MASK) + distance)
            for first, following in pairwise(groups)
        ]

    def original(self, span: Span) -> Span:
        """Return where a span of the masked text is in the original. Masks are included as a whole."""
        return span._replace(start=self._position(span.start, 0), end=self._position(span.end - 1, 1))

    def _position(self, position: int, extra: int) -> int:
        index = bisect_right(self._mask_starts, position) - 1
        if index < 0:
            return position + extra
        offset = position - self._mask_starts[index] - len(MASK)
        earlier = self._spans[index]
        if offset < 0:
            return earlier.end if extra else earlier.start
        return earlier.end + offset + extra
