"""Which field names need attention: asked of each name once, then of all names of an object in one go.

Agents send the same few names for ever, so the answer is nearly always known; what is remembered is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

_REMEMBERED = 10_000
_REMEMBERED_CHARS = 100


class Special:
    """Finds the names that `is_special` is true of."""

    def __init__(self, is_special: Callable[[str], bool]) -> None:
        self._is_special = is_special
        self._ordinary: set[str] = set()
        self._special: set[str] = set()

    def among(self, names: Collection[str]) -> Collection[str]:
        """The special ones of `names`."""
        if self._ordinary.issuperset(names):
            return ()
        special, ordinary = self._special, self._ordinary
        return [name for name in names if name in special or (name not in ordinary and self._asked(name))]

    def _asked(self, name: str) -> bool:
        found = self._is_special(name)
        if len(name) <= _REMEMBERED_CHARS:
            known = self._special if found else self._ordinary
            if len(known) >= _REMEMBERED:
                known.clear()
            known.add(name)
        return found
