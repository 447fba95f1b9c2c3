"""Shapes of metadata values. A shape returns the part of a value that everyone with access to the session may see.

A value that does not have the declared shape is content, whatever its field is called. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from compact.events.sentences import is_known_sentence

HIDDEN = "[hidden]"
"""Replaces every value that the reader may not see."""

Shape = Callable[[Any], Any]

# These two patterns are also used in SQL, so they contain only what Python and Postgres understand alike.
WORD_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,63}$"
LABEL_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.&()/-]{0,31}( [A-Za-z0-9_.&()/-]{1,32}){0,3}$"
_WORD = re.compile(WORD_PATTERN)
_LABEL = re.compile(LABEL_PATTERN)
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+=~#-]{0,255}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?")
_ROUTE = re.compile(r"/[A-Za-z0-9_.:/<>{}*-]{0,127}")
_MAX_ITEMS = 10_000
_MAX_DEPTH = 8


def number(value: Any) -> Any:
    """A number or a boolean, also as text, which some tracers send."""
    is_number = isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value))
    return value if is_number else HIDDEN


def word(value: Any) -> Any:
    """A value of an enumeration, or a name without spaces. Numbers are words too."""
    return _match(_WORD, value)


def label(value: Any) -> Any:
    """A name of at most four words, such as the name of an agent or a model."""
    return _match(_LABEL, value)


def identifier(value: Any) -> Any:
    """An id of up to 256 characters without spaces."""
    return _match(_ID, value)


def time(value: Any) -> Any:
    """A time in ISO 8601, with or without quotes, or a number."""
    return value if isinstance(value, str) and _TIME.fullmatch(value.strip('"')) else number(value)


def route(value: Any) -> Any:
    """The template of a path, such as `/users/{id}`."""
    return _match(_ROUTE, value)


def sentence(value: Any) -> Any:
    """A sentence of the `compact` library, which is a template with typed values. Any other text is content."""
    return value if isinstance(value, str) and is_known_sentence(value) else number(value)


def numbers(value: Any, depth: int = 0) -> Any:
    """An object whose leaves are numbers, such as token counts. It may be JSON in a string. Vectors are content."""
    if isinstance(value, str) and depth == 0:
        value = _parse(value)
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        return hide_keys({key: numbers(part, depth + 1) for key, part in value.items()})
    return HIDDEN


def settings(value: Any, depth: int = 0) -> Any:
    """Settings of the `compact` library: numbers, words, and lists and objects of them."""
    if value is None:
        return None
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        return hide_keys({key: settings(part, depth + 1) for key, part in value.items()})
    if isinstance(value, list | tuple) and depth < _MAX_DEPTH:
        return [settings(part, depth + 1) for part in value[:_MAX_ITEMS]]
    return word(value)


def list_of(shape: Shape) -> Shape:
    """A list of values of one shape. A single value counts as a list of one."""

    def visible(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [None if part is None else shape(part) for part in value[:_MAX_ITEMS]]
        return shape(value)

    return visible


def fields(shapes: Mapping[str, Shape]) -> Shape:
    """An object with known fields. Its other fields are hidden."""

    def visible(value: Any) -> Any:
        return apply(shapes, value) if isinstance(value, Mapping) else HIDDEN

    return visible


def apply(shapes: Mapping[str, Shape], value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object in which everything is hidden that has no known shape. Empty values stay."""
    visible = {}
    for key, part in value.items():
        shape = shapes.get(key)
        if part is None or part == "":
            visible[key] = part
        else:
            visible[key] = shape(part) if shape is not None else HIDDEN
    return hide_keys(visible)


def hide_keys(value: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the keys that are not names. Agents may use any text as a key."""
    visible = {key: part for key, part in value.items() if _ID.fullmatch(key)}
    if len(visible) < len(value):
        visible[HIDDEN] = f"{len(value) - len(visible)} keys"
    return visible


def _match(pattern: re.Pattern[str], value: Any) -> Any:
    is_visible = isinstance(value, int | float) or (isinstance(value, str) and pattern.fullmatch(value))
    return value if is_visible else HIDDEN


def _parse(text: str) -> Any:
    if not text.startswith("{") or len(text) > 10_000:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
