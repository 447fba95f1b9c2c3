"""Find all positions of many literals in a text."""

from __future__ import annotations

from collections.abc import Callable

LiteralSearch = Callable[[str], "dict[str, list[int]]"]


def literal_search(literals: list[str]) -> LiteralSearch:
    """Return a search function that uses Aho-Corasick if the package is installed, and `str.find` otherwise."""
    try:
        from ahocorasick_rs import AhoCorasick, Implementation
    except ImportError:
        return lambda text: find_each(literals, text)
    # The fastest implementation, which the package does not choose by default for this many literals.
    automaton = AhoCorasick(literals, implementation=Implementation.DFA)

    def search(text: str) -> dict[str, list[int]]:
        try:
            matches = automaton.find_matches_as_indexes(text, overlapping=True)
        except UnicodeEncodeError:
            # A lone surrogate, which is valid in a Python string but not in UTF-8.
            return find_each(literals, text)
        positions: dict[str, list[int]] = {}
        for index, start, _ in matches:
            positions.setdefault(literals[index], []).append(start)
        return positions

    return search


def find_each(literals: list[str], text: str) -> dict[str, list[int]]:
    """Return the positions of each literal that occurs in the text, including overlapping ones."""
    positions: dict[str, list[int]] = {}
    for literal in literals:
        position = text.find(literal)
        while position >= 0:
            positions.setdefault(literal, []).append(position)
            position = text.find(literal, position + 1)
    return positions
