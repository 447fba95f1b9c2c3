"""Find values in JSON with comments by position, so that an edit leaves every other byte as it is.

Comments (`//`, `/* */`) and trailing commas are accepted, because people write them into settings files. Anything else
that is not JSON raises `Unsafe`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_TRIVIA = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_MAX_DEPTH = 100


class Unsafe(Exception):
    """The text cannot be edited without a risk."""


@dataclass(slots=True)
class Node:
    """A value and its place: `text[start:end]`. Containers also know where their content ends."""

    start: int
    end: int
    value: Any = None
    members: dict[str, Node] | None = None
    elements: list[Node] | None = None
    starts: list[int] = field(default_factory=list)
    """The start of each element, or of each member's key."""
    has_trailing_comma: bool = False

    @property
    def children(self) -> list[Node]:
        """The values inside, in order."""
        return list(self.members.values()) if self.members is not None else self.elements or []


def parse(text: str) -> Node:
    """Return the root value."""
    parser = _Parser(text)
    node, end = parser.value(parser.skip(0), 0)
    if parser.skip(end) != len(text):
        raise Unsafe(f"There is more text after the settings, in line {line_of(text, end)}.")
    return node


def line_of(text: str, position: int) -> int:
    """Return the line number of a position."""
    return text.count("\n", 0, position) + 1


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, position: int) -> int:
        """Return the position after spaces and comments."""
        match = _TRIVIA.match(self._text, position)
        assert match is not None
        return match.end()

    def value(self, start: int, depth: int) -> tuple[Node, int]:
        character = self._text[start : start + 1]
        if depth > _MAX_DEPTH:
            raise Unsafe("The settings are nested too deeply.")
        if character == "{":
            return self._object(start, depth)
        if character == "[":
            return self._array(start, depth)
        match = _STRING.match(self._text, start) if character == '"' else _SCALAR.match(self._text, start)
        if match is None:
            raise Unsafe(f"Line {line_of(self._text, start)} is not valid JSON.")
        return Node(start, match.end(), self._load(match.group(), start)), match.end()

    def _object(self, start: int, depth: int) -> tuple[Node, int]:
        node = Node(start, start, members={})
        assert node.members is not None
        position = self.skip(start + 1)
        while self._text[position : position + 1] != "}":
            match = _STRING.match(self._text, position)
            if match is None:
                raise Unsafe(f"Line {line_of(self._text, position)} is not valid JSON: expected a key.")
            key = self._load(match.group(), position)
            if key in node.members:
                raise Unsafe(f"The key {key!r} occurs twice, again in line {line_of(self._text, position)}.")
            colon = self.skip(match.end())
            if self._text[colon : colon + 1] != ":":
                raise Unsafe(f"Line {line_of(self._text, colon)} is not valid JSON: expected a colon.")
            node.starts.append(position)
            node.members[key], end = self.value(self.skip(colon + 1), depth + 1)
            position, node.has_trailing_comma = self._next(end, "}")
        return self._close(node, position)

    def _array(self, start: int, depth: int) -> tuple[Node, int]:
        node = Node(start, start, elements=[])
        assert node.elements is not None
        position = self.skip(start + 1)
        while self._text[position : position + 1] != "]":
            node.starts.append(position)
            element, end = self.value(position, depth + 1)
            node.elements.append(element)
            position, node.has_trailing_comma = self._next(end, "]")
        return self._close(node, position)

    def _next(self, end: int, closing: str) -> tuple[int, bool]:
        """Return the position of the next value or of the closing bracket, and whether a comma precedes a bracket."""
        position = self.skip(end)
        character = self._text[position : position + 1]
        if character == ",":
            position = self.skip(position + 1)
            return position, self._text[position : position + 1] == closing
        if character != closing:
            raise Unsafe(f"Line {line_of(self._text, position)} is not valid JSON: expected a comma or {closing!r}.")
        return position, False

    def _close(self, node: Node, position: int) -> tuple[Node, int]:
        node.end = position + 1
        node.value = (
            {key: member.value for key, member in node.members.items()}
            if node.members is not None
            else [element.value for element in node.elements or ()]
        )
        return node, node.end

    def _load(self, text: str, position: int) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            raise Unsafe(f"Line {line_of(self._text, position)} is not valid JSON.") from None


def content_end(text: str, node: Node) -> int:
    """Return the position after the last value or comment inside a container, before the space at its end."""
    end = node.end - 1
    return len(text[:end].rstrip())
