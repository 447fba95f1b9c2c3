"""Find the keys of an object that need attention, with a cache.

Agents send the same few objects over and over, so the answer for an object's keys is nearly always cached. The caches
are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

_MAX_CACHED_KEYS = 10_000
_MAX_CACHED_KEY_CHARS = 100
_MAX_CACHED_SHAPES = 1_000
# Objects with more keys rarely repeat.
_MAX_SHAPE_KEYS = 50


class KeyMatcher:
    """Select the keys for which `predicate` is true."""

    def __init__(self, predicate: Callable[[str], bool]) -> None:
        self._predicate = predicate
        self._matching: set[str] = set()
        self._other: set[str] = set()
        self._shapes: dict[tuple[str, ...], tuple[str, ...]] = {}

    def select(self, keys: Collection[str]) -> Collection[str]:
        """Return the matching keys of an object, given all its keys."""
        shape = tuple(keys)
        matching = self._shapes.get(shape)
        return self._select_uncached(shape) if matching is None else matching

    def _select_uncached(self, shape: tuple[str, ...]) -> tuple[str, ...]:
        matching, other = self._matching, self._other
        selected = tuple(key for key in shape if key in matching or (key not in other and self._matches(key)))
        if len(shape) <= _MAX_SHAPE_KEYS and all(len(key) <= _MAX_CACHED_KEY_CHARS for key in shape):
            if len(self._shapes) >= _MAX_CACHED_SHAPES:
                self._shapes.clear()
            self._shapes[shape] = selected
        return selected

    def _matches(self, key: str) -> bool:
        is_match = self._predicate(key)
        if len(key) <= _MAX_CACHED_KEY_CHARS:
            cache = self._matching if is_match else self._other
            if len(cache) >= _MAX_CACHED_KEYS:
                cache.clear()
            cache.add(key)
        return is_match
