"""Walk from the sections that match a query to the other sections of their messages, best first. Pure functions."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Final

# The share of its worth that a section keeps for each step away from a match.
_DECAY: Final = 0.8
_MIN_SHARE: Final = 0.05
_MAX_SECTIONS: Final = 128


def spread(
    matches: Iterable[tuple[float, int, int]], count_sections: Callable[[int], int]
) -> Iterator[tuple[int, int]]:
    """Yield sections as the number of their source and their place in it.

    `matches` are the sections to start from, with their worth. `count_sections` returns how many sections a source
    has.
    """
    # The worth is negative, because the smallest item of a heap is first.
    heap = [(-worth, number, place, step) for worth, number, place in matches for step in (1, -1)]
    if not heap:
        return
    heapq.heapify(heap)
    least = heap[0][0] * _MIN_SHARE
    seen: set[tuple[int, int]] = set()
    while heap and heap[0][0] <= least and len(seen) < _MAX_SECTIONS:
        worth, number, place, step = heap[0]
        if (number, place) not in seen:
            seen.add((number, place))
            yield number, place
        place += step
        if 0 <= place < count_sections(number):
            heapq.heapreplace(heap, (worth * _DECAY, number, place, step))
        else:
            heapq.heappop(heap)
