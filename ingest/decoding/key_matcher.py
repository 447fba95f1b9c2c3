"""Find the keys of an object that need attention, with a cache.

Agents send the same few objects over and over, so the answer for an object's keys is nearly always cached. The caches
are bounded.
"""

from __future__ import annotations

from collections.abc import Callable

_MAX_CACHED_KEYS = 10_000
_MAX_CACHED_KEY_CHARS = 100
_MAX_CACHED_SHAPES = 1_000
# Objects with more keys rarely repeat.
_MAX_SHAPE_KEYS = 50


class KeyMatcher(dict[tuple[str, ...], tuple[str, ...]]):
    """A mapping from all keys of an object to those for which `predicate` is true.

    A dict with `__missing__`, because a cached lookup then needs no Python call.
    """

    def __init__(self, predicate: Callable[[str], bool]) -> None:
        super().__init__()
        self._predicate = predicate
        self._matching: set[str] = set()
        self._other: set[str] = set()

    def __missing__(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        matching, other = self._matching, self._other
        selected = tuple(key for key in keys if key in matching or (key not in other and self._matches(key)))
        if len(keys) <= _MAX_SHAPE_KEYS and all(len(key) <= _MAX_CACHED_KEY_CHARS for key in keys):
            if len(self) >= _MAX_CACHED_SHAPES:
                self.clear()
            self[keys] = selected
        return selected

    def _matches(self, key: str) -> bool:
        is_match = self._predicate(key)
        if len(key) <= _MAX_CACHED_KEY_CHARS:
            cache = self._matching if is_match else self._other
            if len(cache) >= _MAX_CACHED_KEYS:
                cache.clear()
            cache.add(key)
        return is_match
