"""Cut points of a text: the positions at which it can be cut without breaking a record, a field or a line."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Protocol

from compact.events.phrases import format_count

# Everything up to the next bracket or comma outside of strings. A match always succeeds, because a string that is not
# closed ends with the text. A text full of quotes is therefore read only once.
_JSON_STEP = re.compile(r'(?:[^"\[\]{},]++|"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"|\Z))*+([\[\]{},]|\Z)', re.DOTALL)
_JSON_START = re.compile(r"\s*+[\[{]")
_NOT_SPACE = re.compile(r"\S|\Z")
# Share of a text that its fields and elements must cover. Otherwise, it is not JSON, or mostly one long string.
_MIN_COVERAGE = 0.5


class CutPoints(Protocol):
    """The units of a text that should stay whole."""

    def head_end(self, limit: int) -> int:
        """Return the end of the last unit up to a position."""
        ...

    def tail_start(self, limit: int) -> int:
        """Return the start of the first unit from a position on."""
        ...

    def marker(self, text: str, start: int, end: int) -> str:
        """Return the text that replaces everything between two cut points."""
        ...


class LineCuts:
    """Cuts between lines."""

    def __init__(self, content: str) -> None:
        self._content = content

    def head_end(self, limit: int) -> int:
        return self._content.rfind("\n", 0, limit) + 1

    def tail_start(self, limit: int) -> int:
        return self._content.find("\n", max(0, limit - 1)) + 1 or len(self._content)

    def marker(self, text: str, start: int, end: int) -> str:
        lines = self._content.count("\n", start, end) + (end == len(self._content))
        return f"{text} ({format_count(lines, 'line')})\n"


class JsonCuts:
    """Cuts between the fields and elements of a JSON text."""

    def __init__(self, content: str, spans: Sequence[tuple[int, int]]) -> None:
        self._content = content
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def head_end(self, limit: int) -> int:
        number = bisect_right(self._ends, limit)
        opening = self._starts[0] if self._starts[0] <= limit else 0
        return self._ends[number - 1] if number else opening

    def tail_start(self, limit: int) -> int:
        number = bisect_left(self._starts, limit)
        if number < len(self._starts):
            return self._skip_space(self._starts[number])
        return self._ends[-1] if self._ends[-1] >= limit else len(self._content)

    def marker(self, text: str, start: int, end: int) -> str:
        missing = self._starts[bisect_left(self._starts, start) : bisect_right(self._ends, end)]
        records = sum(self._content[self._skip_space(position)] in "[{" for position in missing)
        return f" {text} ({format_count(records, 'record') if records else format_count(len(missing), 'value')}) "

    def _skip_space(self, position: int) -> int:
        match = _NOT_SPACE.search(self._content, position)
        return match.start() if match else position


def find_cut_points(content: str, max_chars: int) -> CutPoints:
    """Return the cuts between the records of a JSON text, or between the lines of any other text.

    A record longer than `max_chars` could not be kept, so its fields count instead.
    """
    if spans := _member_spans(content, max_chars):
        return JsonCuts(content, spans)
    return LineCuts(content)


def _member_spans(content: str, max_chars: int) -> list[tuple[int, int]]:
    """Return the start and end of the outermost fields and elements of a JSON text that are not too long.

    Several JSON texts one after the other count as elements. Empty if the text is not JSON.
    """
    if not _JSON_START.match(content):
        return []
    spans: list[tuple[int, int]] = []
    open_members: list[int] = []
    first = 0

    def add(start: int, end: int) -> None:
        if end - start <= max_chars:
            while spans and spans[-1][0] >= start:
                spans.pop()
            spans.append((start, end))

    for match in _JSON_STEP.finditer(content):
        character, position = match[1], match.start(1)
        if character in ("[", "{"):
            first = first if open_members else position
            open_members.append(position + 1)
        elif character == "," and open_members:
            add(open_members[-1], position)
            open_members[-1] = position + 1
        elif character in ("]", "}") and open_members:
            add(open_members.pop(), position)
            if not open_members:
                add(first, position + 1)
    is_json = sum(end - start for start, end in spans) >= _MIN_COVERAGE * len(content)
    return spans if is_json else []
