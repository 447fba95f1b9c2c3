"""Search in everything that a session has contained: terms, passages and a full-text index in memory.

Pure apart from the index, which is an SQLite database in memory. The engine decides which messages are indexed.
"""

from __future__ import annotations

from compact.recall.index import PassageIndex, Source
from compact.recall.known_words import KnownWords
from compact.recall.passage import Passage, check_limits, render_passages

__all__ = ["KnownWords", "Passage", "PassageIndex", "Source", "check_limits", "render_passages"]
