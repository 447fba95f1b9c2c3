"""Find and edit values in JSON with comments by position, so that an edit leaves every other byte as it is.

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
_INDENT = re.compile(r"\n([ \t]+)\S")
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


def insert(text: str, node: Node, key: str | None, value: Any) -> str:
    """Insert a value as the last one of an object or list, in the style of its neighbors."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text)
    is_inline = "\n" not in text[node.start : node.end] and bool(node.children or not unit)
    prefix = f"{json.dumps(key)}: " if key is not None else ""
    if is_inline:
        return _place(text, node, f"{prefix}{json.dumps(value)}", " " if node.children else "", "")
    outer = _indent_at(text, node.start)
    inner = _indent_at(text, node.starts[0]) if node.starts else outer + unit
    body = dump(value, unit).replace("\n", f"{newline}{inner}")
    closing = "" if node.children else f"{newline}{outer}"
    return _place(text, node, f"{prefix}{body}", f"{newline}{inner}", closing)


def _place(text: str, node: Node, new: str, before: str, closing: str) -> str:
    """Put text before the closing bracket, after the last comment. The comma goes directly behind the last value."""
    end = max(content_end(text, node), node.start + 1)
    tail = text[end:] if not closing else closing + text[node.end - 1 :]
    if not node.children:
        return text[: node.start + 1] + text[node.start + 1 : end] + before + new + tail
    if node.has_trailing_comma:
        return f"{text[:end]}{before}{new},{tail}"
    last = node.children[-1].end
    return f"{text[:last]},{text[last:end]}{before}{new}{tail}"


def delete_child(text: str, node: Node, child: str | int) -> str:
    """Delete a member or element, its comma, and the space before it."""
    index = list(node.members or ()).index(child) if isinstance(child, str) else child
    start, end = node.starts[index], node.children[index].end
    is_last = index == len(node.children) - 1
    if not is_last:
        following = node.starts[index + 1]
        return text[:start] + text[following:]
    if index == 0:
        inside = text[node.start + 1 : start] + text[end : node.end - 1]
        return text[: node.start + 1] + (inside if inside.strip(" \t\r\n,") else "") + text[node.end - 1 :]
    previous = node.children[index - 1].end
    between, rest = text[previous:start].rstrip(), text[end : node.end]
    if node.has_trailing_comma:
        rest = rest.replace(",", "", 1)
    else:
        # Keep comments behind the previous value, but not its comma.
        between = between.replace(",", "", 1)
    return text[:previous] + between + rest + text[node.end :]


def _unit(text: str) -> str:
    """Return one level of indentation, or an empty text for a file that is one line."""
    match = _INDENT.search(text)
    return match[1] if match else "" if "\n" not in text.strip() and len(text.strip()) > 2 else "  "


def _indent_at(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip())]


def dump(value: Any, unit: str) -> str:
    """Return a value as JSON with the given indentation."""
    return json.dumps(value, indent=unit or None, ensure_ascii=False)
