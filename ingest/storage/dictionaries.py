"""Compression dictionaries for the data of spans, which contain the keys and values that most of them repeat.

A compressed value names its dictionary by number. A file that was released is therefore never changed or deleted. A new
dictionary gets the next number and becomes `CURRENT`. `python -m tools.payload_dictionary` trains one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import zstandard

# The dictionary of new values.
CURRENT = 1
FOLDER = Path(__file__).parent / "dictionary_files"


class MissingDictionary(LookupError):
    """A stored value needs a dictionary that this version of the server does not have."""

    def __init__(self, number: int) -> None:
        super().__init__(f"It needs the compression dictionary {number}, which this version of the server lacks.")


@cache
def load(number: int) -> zstandard.ZstdCompressionDict:
    """Return a dictionary. Threads and contexts can share it."""
    try:
        content = (FOLDER / f"{number}.zdict").read_bytes()
    except FileNotFoundError:
        raise MissingDictionary(number) from None
    return zstandard.ZstdCompressionDict(content)
