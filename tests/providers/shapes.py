"""Checks of JSON values against the request types of a provider's SDK.

The SDKs describe a request as `TypedDict` classes. Python does not check those at run time, and the real APIs do: an
unknown key, a missing key, a wrong type or an unknown literal is a 400.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import typing_extensions

Path = tuple[str | int, ...]
_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
}
_REQUIRED = (typing.Required, typing_extensions.Required)
_OPTIONAL = (typing.NotRequired, typing_extensions.NotRequired)
_WRAPPERS = (*_REQUIRED, *_OPTIONAL, typing.Annotated)


@dataclass
class ShapeError(Exception):
    """A value that does not have the shape of its type."""

    kind: Literal["unknown", "missing", "type", "value"]
    path: Path
    detail: str = ""


def check(value: Any, annotation: Any, path: Path = ()) -> None:
    """Raise `ShapeError` for the first part of the value that the annotation does not allow."""
    annotation = _unwrap(annotation)
    if annotation in (Any, object):
        return
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        _check_union(value, _alternatives(annotation), path)
    elif origin is Literal:
        if value not in get_args(annotation):
            raise ShapeError("value", path, f"{value!r}")
    elif typing_extensions.is_typeddict(annotation):
        _check_dict(value, annotation, path)
    elif origin in (list, Sequence, Iterable) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        if not isinstance(value, list):
            raise ShapeError("type", path, describe(value))
        (item_type,) = get_args(annotation)
        for index, item in enumerate(value):
            check(item, item_type, (*path, index))
    elif _is_mapping(annotation):
        if not isinstance(value, dict):
            raise ShapeError("type", path, describe(value))
    else:
        _check_scalar(value, annotation, path)


def describe(value: Any) -> str:
    """Return the words with which OpenAI names the type of a JSON value."""
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)


def _is_mapping(annotation: Any) -> bool:
    """True for a dict with any keys, such as a JSON schema."""
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _check_scalar(value: Any, annotation: Any, path: Path) -> None:
    if annotation is type(None):
        matches = value is None
    elif annotation is float:
        matches = isinstance(value, int | float) and not isinstance(value, bool)
    elif annotation is int:
        matches = isinstance(value, int) and not isinstance(value, bool)
    elif annotation in (str, bool):
        matches = isinstance(value, annotation)
    else:
        matches = True
    if not matches:
        raise ShapeError("type", path, describe(value))


def _check_dict(value: Any, annotation: Any, path: Path) -> None:
    if not isinstance(value, dict):
        raise ShapeError("type", path, describe(value))
    hints = _hints(annotation)
    for key, item in value.items():
        if key not in hints:
            raise ShapeError("unknown", (*path, key))
        check(item, hints[key], (*path, key))
    for key in sorted(_required(annotation)):
        if key not in value:
            raise ShapeError("missing", (*path, key))


def _check_union(value: Any, members: tuple[Any, ...], path: Path) -> None:
    dicts = [member for member in members if typing_extensions.is_typeddict(member)]
    others = [member for member in members if member not in dicts]
    is_open = any(_is_mapping(member) for member in others)
    if isinstance(value, dict) and dicts and not is_open:
        _check_alternatives(value, _match_types(value, dicts, path), path)
        return
    _check_alternatives(value, others or dicts, path)


def _check_alternatives(value: Any, members: list[Any], path: Path) -> None:
    errors: list[ShapeError] = []
    for member in members:
        try:
            check(value, member, path)
        except ShapeError as error:
            errors.append(error)
        else:
            return
    # The alternative that was followed furthest is the one that the sender meant.
    raise max(errors, key=lambda error: len(error.path))


def _match_types(value: dict[str, Any], members: list[Any], path: Path) -> list[Any]:
    """Return the dict types whose literal `type` or `role` is that of the value."""
    for key in ("type", "role"):
        if key in value:
            named = [member for member in members if key in _hints(member)]
            matching = [member for member in named if _allows(value[key], member, key)]
            if matching:
                members = matching
            elif named:
                raise ShapeError("value", (*path, key), f"{value[key]!r}")
        else:
            optional = [member for member in members if key not in _required(member)]
            members = optional or members
    return members


def _allows(value: Any, member: Any, key: str) -> bool:
    """True if a dict type allows this value of a key."""
    names = _literals(member, key)
    if names is not None:
        return isinstance(value, str) and value in names
    try:
        check(value, _hints(member)[key])
    except ShapeError:
        return False
    return True


@cache
def _literals(member: Any, key: str) -> frozenset[str] | None:
    """Return the names that a key may have, or None if its type is not a set of names."""
    annotation = _unwrap(_hints(member)[key])
    return frozenset(get_args(annotation)) if get_origin(annotation) is Literal else None


@cache
def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return tuple(_unwrap(member) for member in _members(annotation))


@cache
def _hints(annotation: Any) -> dict[str, Any]:
    return typing_extensions.get_type_hints(annotation, include_extras=True)


@cache
def _required(annotation: Any) -> frozenset[str]:
    # `__required_keys__` is wrong for `Required[…]` in modules with postponed annotations.
    return frozenset(
        key
        for key, hint in _hints(annotation).items()
        if get_origin(hint) in _REQUIRED or (key in annotation.__required_keys__ and get_origin(hint) not in _OPTIONAL)
    )


def _members(annotation: Any) -> Iterable[Any]:
    for member in map(_unwrap, get_args(annotation)):
        if get_origin(member) in (Union, types.UnionType):
            yield from _members(member)
        else:
            yield member


def _unwrap(annotation: Any) -> Any:
    while True:
        if isinstance(annotation, typing_extensions.TypeAliasType):
            annotation = annotation.__value__
        elif get_origin(annotation) in _WRAPPERS:
            annotation = get_args(annotation)[0]
        else:
            return annotation
