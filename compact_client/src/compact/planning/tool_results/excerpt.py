"""Shorten a tool output to an excerpt: the lines around its first error, its first lines and its last lines.

Lines stay whole, and neighbors stay together. A marker says how many lines are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from compact.events.phrases import format_count
from compact.reading.state.requests import without_wrappers

_ERROR = re.compile(r"error|failed|failure|exception|traceback|panic|fatal|denied|not found", re.IGNORECASE)
_NUMBERED = re.compile(r"\s*\d+(?:→|\t|[:|│-])")
# The lines of a file say nothing without the lines around them. Below this limit, none of them stays.
_MIN_FILE_TOKENS = 48
_ERROR_SHARE, _HEAD_SHARE = 0.4, 0.5
_LINES_BEFORE_ERROR = 1
_MAX_LINE_CHARS = 240
_MIN_BLOCK = 2  # a line alone is hard to read


def excerpt(content: str, max_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """Return the most informative lines of an output, in at most about `max_tokens` and a marker for each gap."""
    total = count_tokens(content)
    if total <= max_tokens:
        return content
    text = without_wrappers(content).strip("\n") if "<" in content else content.strip("\n")
    lines = text.split("\n")
    sizes = [min(len(line), _MAX_LINE_CHARS) + 1 for line in lines]
    kept = _kept_lines(lines, sizes, max_tokens, max_chars=int(max_tokens * len(content) / total))
    parts, index = [], 0
    while index < len(lines):
        end = index + 1
        while end < len(lines) and kept[end] == kept[index]:
            end += 1
        part = lines[index:end]
        if kept[index]:
            parts += [_clip(line) for line in part]
        else:
            tokens = count_tokens("\n".join(part))
            parts.append(f"…{tokens} tokens truncated… ({format_count(len(part), 'line')})")
        index = end
    return "\n".join(parts)


def _kept_lines(lines: Sequence[str], sizes: Sequence[int], max_tokens: int, max_chars: int) -> list[bool]:
    """Return for each line if the excerpt has it."""
    kept = [False] * len(lines)
    error = next((index for index, line in enumerate(lines) if _ERROR.search(line)), None)
    is_file = len(lines) > 1 and all(_NUMBERED.match(line) for line in lines[:2])
    if is_file and max_tokens < _MIN_FILE_TOKENS:
        return kept
    left = max_chars
    if error is not None:
        start = max(0, error - _LINES_BEFORE_ERROR)
        left -= _keep(kept, sizes, range(start, len(lines)), left * _ERROR_SHARE)
    left -= _keep(kept, sizes, range(len(lines)), left * _HEAD_SHARE)
    _keep(kept, sizes, range(len(lines) - 1, -1, -1), left)
    return kept


def _keep(kept: list[bool], sizes: Sequence[int], order: Sequence[int], max_chars: float) -> int:
    """Keep lines in this order up to a size, but not a line alone. Return the size that they add."""
    chosen, used = [], 0
    for index in order:
        size = 0 if kept[index] else sizes[index]
        if used + size > max_chars:
            break
        chosen.append(index)
        used += size
    if len(chosen) < min(_MIN_BLOCK, len(sizes)) and not any(map(kept.__getitem__, chosen)):
        return 0
    for index in chosen:
        kept[index] = True
    return used


def _clip(line: str) -> str:
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]}…"
