"""Truncate long tool outputs in the middle and mark the cut.

Half of the limit is kept from the start and half from the end: the start usually identifies the output, and the end
has its result. Records and lines stay whole, unless they are too long for that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from compact.estimators import TiktokenEstimator
from compact.planning.tool_results.cut_points import CutPoints, find_cut_points
from compact.policy import CompactPolicy

APPROX_BYTES_PER_TOKEN = 4
MARKER_TOKENS = 24
"""The most that the marker takes: the number of missing tokens, and of lines or records."""
_SIZE_ATTEMPTS = 8
_UNITS_TOKENS = 8  # the number of lines or records in the marker
_NOTE_TOKENS = 64  # the marker, and the pointer to the full text
_MARKER = re.compile(r"…\d+ (?:tokens|chars) truncated…")
_MAX_UNIT_SHARE = 0.8  # of the limit, for a record. A longer one would hardly fit beside the marker.


def truncate_with_split(
    content: str,
    max_tokens: int,
    count_tokens: Callable[[str], int] | None = None,
    *,
    with_line_count: bool = False,
) -> str:
    """Return about `max_tokens` of a text: its start, a marker with the number of missing tokens, and its end."""
    count_tokens = count_tokens or TiktokenEstimator().count_tokens
    total = count_tokens(content)
    if total <= max_tokens:
        return content
    text = _MeasuredText(content, count_tokens, chars_per_token=len(content) / total)
    half = max(1, max_tokens // 2)
    inside = _Cut(text.head_end(half), text.tail_start(half))
    points = find_cut_points(content, max_chars=int(_MAX_UNIT_SHARE * max_tokens * text.chars_per_token))
    between = _cut_between_units(text, points, max_tokens)
    # Lines or records that are too long for the limit can only be cut inside.
    is_whole = len(content) - between.size >= (len(content) - inside.size) / 2
    head_end, tail_start = between if is_whole else inside
    head, tail = content[:head_end], content[tail_start:]
    marker = f"…{max(1, total - count_tokens(head) - count_tokens(tail))} tokens truncated…"
    if is_whole:
        marker = points.marker(marker, head_end, tail_start)
    return _join(content, head, tail, marker, with_line_count)


def truncate_bytes_with_split(content: str, max_bytes: int, *, with_line_count: bool = False) -> str:
    """Return about `max_bytes` of a text, cut between characters."""
    raw = content.encode("utf-8", "surrogatepass")
    if len(raw) <= max_bytes:
        return content
    half = max(1, max_bytes // 2)
    head = raw[:half].decode("utf-8", "ignore")
    tail = raw[-half:].decode("utf-8", "ignore")
    missing = len(content) - len(head) - len(tail)
    return _join(content, head, tail, f"…{missing} chars truncated…", with_line_count)


def truncate_output(content: str, policy: CompactPolicy, count_tokens: Callable[[str], int]) -> str:
    """Truncate a tool output as the policy requires."""
    if policy.tool_output_truncation == "none":
        return content
    limit = int(policy.tool_output_max_tokens * policy.tool_output_serialization_buffer)
    if policy.tool_output_truncation == "bytes":
        max_bytes = limit * APPROX_BYTES_PER_TOKEN
        return truncate_bytes_with_split(content, max_bytes, with_line_count=policy.tool_output_line_count)
    if (
        fits_without_counting(content, policy.tool_output_max_tokens)
        or (tokens := count_tokens(content)) <= policy.tool_output_max_tokens
    ):
        return content
    # The buffer allows for escaping. It is not a second threshold: every output over the limit is cut.
    limit = limit if tokens > limit else policy.tool_output_max_tokens
    return truncate_with_split(content, limit, count_tokens, with_line_count=policy.tool_output_line_count)


def is_truncated_output(content: str, policy: CompactPolicy, count_tokens: Callable[[str], int]) -> bool:
    """True for an output that was truncated as the policy requires, for example by an earlier process."""
    if _MARKER.search(content) is None:
        return False
    limit = int(policy.tool_output_max_tokens * policy.tool_output_serialization_buffer)
    if policy.tool_output_truncation == "bytes":
        return len(content.encode("utf-8", "surrogatepass")) <= (limit + _NOTE_TOKENS) * APPROX_BYTES_PER_TOKEN
    return count_tokens(content) <= limit + _NOTE_TOKENS


def fits_without_counting(content: str, max_tokens: int) -> bool:
    """True if a text is too short to exceed the token limit, so that counting is unnecessary."""
    # A token has at least one byte, and a character at most four.
    return len(content) * (1 if content.isascii() else 4) <= max_tokens


def _join(content: str, head: str, tail: str, marker: str, with_line_count: bool) -> str:
    header = f"Total output lines: {content.count(chr(10)) + 1}\n\n" if with_line_count else ""
    return f"{header}{head}{marker}{tail}"


class _Cut(NamedTuple):
    """The part of a text that is left out."""

    head_end: int
    tail_start: int

    @property
    def size(self) -> int:
        return self.tail_start - self.head_end


@dataclass(frozen=True, slots=True)
class _MeasuredText:
    """A text, and the positions up to which its tokens fit a limit."""

    content: str
    count_tokens: Callable[[str], int]
    chars_per_token: float

    def head_end(self, max_tokens: int) -> int:
        """Return the end of a prefix of at most about `max_tokens`."""
        return self._fitting_chars(max_tokens, lambda size: self.content[:size])

    def tail_start(self, max_tokens: int) -> int:
        """Return the start of a suffix of at most about `max_tokens`."""
        length = len(self.content)
        return length - self._fitting_chars(max_tokens, lambda size: self.content[length - size :])

    def _fitting_chars(self, max_tokens: int, part: Callable[[int], str]) -> int:
        """Return the size of a part, found by refining an estimate in a few counts."""
        size = min(len(self.content), max(1, int(max_tokens * self.chars_per_token)))
        for _ in range(_SIZE_ATTEMPTS):
            tokens = self.count_tokens(part(size))
            if tokens <= max_tokens:
                break
            size = max(1, int(size * max_tokens / tokens) - 1)
        return size


def _cut_between_units(text: _MeasuredText, points: CutPoints, max_tokens: int) -> _Cut:
    """Return the cut that keeps whole units: up to half of the limit from the end, and the rest from the start."""
    half = max(1, max_tokens // 2)
    tail_start = points.tail_start(text.tail_start(half))
    left = max(1, max_tokens - _UNITS_TOKENS - text.count_tokens(text.content[tail_start:]))
    return _Cut(min(points.head_end(text.head_end(left)), tail_start), tail_start)
