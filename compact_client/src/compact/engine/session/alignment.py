"""Align a list of message keys with a list that is already known.

A host may show its whole history again, return the list it was given, or edit either one. Each message is matched by
content and by position relative to its neighbors.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from itertools import pairwise


def align(keys: Sequence[Hashable], known: Sequence[Hashable]) -> list[int | None]:
    """Return the index in `known` that each key matches, or None for a new key. The indices only increase."""
    prefix = 0
    limit = min(len(keys), len(known))
    while prefix < limit and keys[prefix] == known[prefix]:
        prefix += 1
    indices: list[int | None] = [*range(prefix), *([None] * (len(keys) - prefix))]
    if prefix < len(keys):
        _align_rest(keys, known, prefix, indices)
    return indices


def _align_rest(keys: Sequence[Hashable], known: Sequence[Hashable], start: int, indices: list[int | None]) -> None:
    unique_keys = _unique_indices(keys, start)
    unique_known = _unique_indices(known, start)
    # Keys that occur once on both sides match with certainty. The longest increasing run of them keeps the order.
    certain = [(index, unique_known[key]) for key, index in unique_keys.items() if key in unique_known]
    anchors = _longest_increasing_run(sorted(certain))
    for index, known_index in anchors:
        indices[index] = known_index
    bounds = [(start - 1, start - 1), *anchors, (len(keys), len(known))]
    for (left, known_left), (right, known_right) in pairwise(bounds):
        cursor = known_left + 1
        for index in range(left + 1, right):
            for candidate in range(cursor, known_right):
                if known[candidate] == keys[index]:
                    indices[index] = candidate
                    cursor = candidate + 1
                    break


def _unique_indices(keys: Sequence[Hashable], start: int) -> dict[Hashable, int]:
    """Return the index of each key that occurs exactly once."""
    unique: dict[Hashable, int] = {}
    repeated: set[Hashable] = set()
    for index in range(start, len(keys)):
        key = keys[index]
        if key in unique or key in repeated:
            repeated.add(key)
            unique.pop(key, None)
        else:
            unique[key] = index
    return unique


def _longest_increasing_run(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs whose second members increase, in O(n log n)."""
    tails: list[int] = []
    tail_indices: list[int] = []
    previous: list[int] = []
    for index, (_, value) in enumerate(pairs):
        slot = bisect_left(tails, value)
        previous.append(tail_indices[slot - 1] if slot else -1)
        if slot == len(tails):
            tails.append(value)
            tail_indices.append(index)
        else:
            tails[slot] = value
            tail_indices[slot] = index
    run: list[tuple[int, int]] = []
    index = tail_indices[-1] if tail_indices else -1
    while index >= 0:
        run.append(pairs[index])
        index = previous[index]
    return run[::-1]
