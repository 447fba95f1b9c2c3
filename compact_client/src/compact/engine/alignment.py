"""Recognise messages that were seen before.

A host may show its whole history again, hand back what it was given, or edit either. Each message it shows is
matched to the one it was, by content and by its neighbours, so that a plan goes on applying to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from itertools import pairwise


def align(shown: Sequence[Hashable], known: Sequence[Hashable]) -> list[int | None]:
    """For each shown key, the place of the known message it is, or None for a new one; places only rise."""
    head = 0
    limit = min(len(shown), len(known))
    while head < limit and shown[head] == known[head]:
        head += 1
    places: list[int | None] = [*range(head), *([None] * (len(shown) - head))]
    if head < len(shown):
        _align_rest(shown, known, head, places)
    return places


def _align_rest(shown: Sequence[Hashable], known: Sequence[Hashable], head: int, places: list[int | None]) -> None:
    once_shown = _unique(shown, head)
    once_known = _unique(known, head)
    # Keys that occur once on both sides are certain; of those, a rising run is kept so that order never turns back.
    certain = [(place, once_known[key]) for key, place in once_shown.items() if key in once_known]
    anchors = _longest_rising(sorted(certain))
    for place, known_place in anchors:
        places[place] = known_place
    bounds = [(head - 1, head - 1), *anchors, (len(shown), len(known))]
    for (left, known_left), (right, known_right) in pairwise(bounds):
        cursor = known_left + 1
        for place in range(left + 1, right):
            for candidate in range(cursor, known_right):
                if known[candidate] == shown[place]:
                    places[place] = candidate
                    cursor = candidate + 1
                    break


def _unique(keys: Sequence[Hashable], start: int) -> dict[Hashable, int]:
    found: dict[Hashable, int] = {}
    repeated: set[Hashable] = set()
    for place in range(start, len(keys)):
        key = keys[place]
        if key in found or key in repeated:
            repeated.add(key)
            found.pop(key, None)
        else:
            found[key] = place
    return found


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs whose second members rise (patience sorting)."""
    tails: list[int] = []
    tail_places: list[int] = []
    before: list[int] = []
    for place, (_, value) in enumerate(pairs):
        slot = bisect_left(tails, value)
        before.append(tail_places[slot - 1] if slot else -1)
        if slot == len(tails):
            tails.append(value)
            tail_places.append(place)
        else:
            tails[slot] = value
            tail_places[slot] = place
    run: list[tuple[int, int]] = []
    place = tail_places[-1] if tail_places else -1
    while place >= 0:
        run.append(pairs[place])
        place = before[place]
    return run[::-1]
