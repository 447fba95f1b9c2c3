"""The shapes of compaction events, derived from the event classes of `compact`.

Numbers, literals and names are metadata by their type. Sentences that the library writes are marked `SENTENCE` in the
class. Everything marked `FREE_TEXT`, and every field that the classes do not have, is content.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from compact.events import CATALOG, Event
from compact.events.reading import OLDER_NUMBERS

from viewer.visibility.shapes import (
    HIDDEN,
    Shape,
    fields,
    identifier,
    label,
    list_of,
    number,
    numbers,
    sentence,
    settings,
    word,
)

_EMPTY: Mapping[str, Shape] = {}
# Properties of document 000 and of older clients, which may be in any event.
_SYNONYMS: Mapping[str, Shape] = {
    **dict.fromkeys(OLDER_NUMBERS | {"pruned_count", "usage_pct", "facts_total", "facts_kept"}, number),
    **dict.fromkeys(("session_id", "trace_id"), identifier),
}


def properties_of(kind: str) -> Mapping[str, Shape]:
    """Return the shapes of an event's properties. An unknown event has none."""
    return _properties().get(kind, _EMPTY)


@cache
def _properties() -> dict[str, Mapping[str, Shape]]:
    return {event.name: {**_SYNONYMS, **_event_shapes(event)} for event in CATALOG}


def _event_shapes(event: type[Event]) -> dict[str, Shape]:
    hints = get_type_hints(event, include_extras=True)
    shapes: dict[str, Shape] = {}
    for field in dataclasses.fields(event):
        if "is_free_text" not in field.metadata and "is_private" not in field.metadata:
            shapes[field.name] = _shape(hints[field.name], is_sentence="is_sentence" in field.metadata)
    return shapes


def _shape(hint: Any, *, is_sentence: bool = False) -> Shape:
    """Return the shape of a type. A type that says nothing about its values has none: they are hidden."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is NotRequired:
        return _shape(arguments[0])
    if origin is Annotated:
        return tool_name if "is_tool_name" in arguments[1] else _shape(arguments[0], is_sentence=_is_sentence(hint))
    if origin in (Union, types.UnionType):
        return _any_of([_shape(part, is_sentence=is_sentence) for part in arguments if part is not type(None)])
    if is_typeddict(hint):
        return fields({key: _shape(part) for key, part in get_type_hints(hint, include_extras=True).items()})
    if isinstance(origin, type):
        return _collection_shape(origin, arguments, is_sentence=is_sentence)
    return _scalar_shape(hint, is_sentence=is_sentence)


def _collection_shape(origin: type, arguments: tuple[Any, ...], *, is_sentence: bool) -> Shape:
    if issubclass(origin, Mapping):
        return settings if arguments[1] is Any else numbers
    return list_of(_shape(arguments[0], is_sentence=is_sentence)) if issubclass(origin, Sequence) else hide


def _scalar_shape(hint: Any, *, is_sentence: bool) -> Shape:
    if get_origin(hint) is Literal:
        return word
    if isinstance(hint, type) and issubclass(hint, int | float):
        return number
    if hint is str:
        return sentence if is_sentence else name
    return hide


def name(value: Any) -> Any:
    """An id, or a name of a few words."""
    visible = identifier(value)
    return label(value) if visible == HIDDEN else visible


def tool_name(value: Any) -> Any:
    """The name of a tool or an MCP server. Names of files have a dot or a slash, and are content."""
    return word(value) if isinstance(value, str) and not {".", "/"} & set(value) else HIDDEN


def hide(value: Any) -> Any:
    return HIDDEN


def _is_sentence(hint: Any) -> bool:
    return "is_sentence" in get_args(hint)[1]


def _any_of(shapes: list[Shape]) -> Shape:
    """Use the shape that shows the most of a value."""
    if len(shapes) == 1:
        return shapes[0]

    def visible(value: Any) -> Any:
        candidates = [shape(value) for shape in shapes]
        return min(candidates, key=_hidden_parts)

    return visible


def _hidden_parts(value: Any) -> float:
    if value == HIDDEN:
        return float("inf")
    return sum(part == HIDDEN for part in value.values()) if isinstance(value, Mapping) else 0
