"""Search in everything that a session has contained: sections, terms, ranking and passages.

Pure apart from the index, which is an SQLite database in memory. The engine decides which messages are indexed.
"""

from __future__ import annotations

from compact.recall.index import PassageIndex
from compact.recall.passage import Passage, check_limits, render_passages
from compact.recall.sections import Source
from compact.recall.terms import words_of

__all__ = ["Passage", "PassageIndex", "Source", "check_limits", "render_passages", "words_of"]
