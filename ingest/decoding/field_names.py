"""Which field names need attention: asked of each name once, then of all names of an object in one go.

Agents send the same few names for ever, most of them in the same few orders, so the answer is nearly always known; what
is remembered is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

_REMEMBERED = 10_000
_REMEMBERED_CHARS = 100
_REMEMBERED_SHAPES = 1_000
# Objects of more names are seldom alike.
_SHAPE_MAX_NAMES = 50


class Special:
    """Finds the names that `is_special` is true of."""

    def __init__(self, is_special: Callable[[str], bool]) -> None:
        self._is_special = is_special
        self._ordinary: set[str] = set()
        self._special: set[str] = set()
        self._shapes: dict[tuple[str, ...], tuple[str, ...]] = {}

    def among(self, names: Collection[str]) -> Collection[str]:
        """The special ones of `names`."""
        shape = tuple(names)
        found = self._shapes.get(shape)
        return self._found(shape) if found is None else found

    def _found(self, shape: tuple[str, ...]) -> tuple[str, ...]:
        special, ordinary = self._special, self._ordinary
        found = tuple(name for name in shape if name in special or (name not in ordinary and self._asked(name)))
        if len(shape) <= _SHAPE_MAX_NAMES and all(len(name) <= _REMEMBERED_CHARS for name in shape):
            if len(self._shapes) >= _REMEMBERED_SHAPES:
                self._shapes.clear()
            self._shapes[shape] = found
        return found

    def _asked(self, name: str) -> bool:
        found = self._is_special(name)
        if len(name) <= _REMEMBERED_CHARS:
            known = self._special if found else self._ordinary
            if len(known) >= _REMEMBERED:
                known.clear()
            known.add(name)
        return found
