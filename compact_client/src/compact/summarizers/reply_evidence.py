"""Check what a model says against the messages that it summarizes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from compact.messages import Message
from compact.reading.entities import find_entities
from compact.reading.state.file_ledger import read_ledger
from compact.summary.entries import Entry, FileTouched, Note, normalize

# Entity types that a summary can only copy, never describe.
_VERBATIM_TYPES: Final = frozenset(
    {"path", "url", "email", "uuid", "ticket", "code", "money", "hex", "version", "file", "num", "date"}
)
_STATE_WORDS: Final = {
    "deleted": "deleted",
    "removed": "deleted",
    "created": "created",
    "renamed": "renamed",
    "moved": "renamed",
}
_SENTENCE: Final = re.compile(r"[^.!?\n]+")
_RULE_WORD: Final = re.compile(r"[\w$']+")
_NEGATION_WORDS: Final = "not never no don't cannot can't without avoid mustn't shouldn't won't forbidden nothing none"
_NEGATIONS: Final = frozenset(_NEGATION_WORDS.split())
_MIN_SHARED_WORDS: Final = 3
_MIN_SHARED_PART: Final = 0.6  # of the words of a rule


class Conversation:
    """The text of the messages, to distinguish copied facts from invented ones."""

    def __init__(self, messages: Sequence[Message]) -> None:
        parts = [
            text for message in messages for text in (message.text, *(call.arguments for call in message.tool_calls))
        ]
        self._text = "\n".join(parts).lower()
        by_people = [
            message for message in messages if message.role not in ("tool", "assistant") and not message.answers
        ]
        self._messages = messages
        self._ids_by_people = {message.id for message in by_people}
        self._sentences_by_people = [_words(line) for message in by_people for line in _SENTENCE.findall(message.text)]
        self._text_by_people = normalize("\n".join(message.text for message in by_people))

    def has_person_stated(self, rule: Note) -> bool:
        """True if a rule comes from a user or system message, by its sources or by its text."""
        return bool(self._ids_by_people.intersection(rule.sources)) or rule.key in self._text_by_people

    def contradicts(self, rule: Note) -> bool:
        """True if a rule of a person has most of its words, but forbids what it allows or the other way round."""
        words = _words(rule.text)
        shared = max(_MIN_SHARED_WORDS, _MIN_SHARED_PART * len(words))
        similar = [sentence for sentence in self._sentences_by_people if len(words & sentence) >= shared]
        return bool(similar) and all(_is_negated(words) != _is_negated(sentence) for sentence in similar)

    @cached_property
    def _file_states(self) -> dict[str, str]:
        return {file.path: file.state for file in read_ledger(self._messages)}

    def supports(self, entry: Entry) -> bool:
        """True if the messages contain every id, path and amount of the entry, and the edits what it says of a file."""
        if isinstance(entry, FileTouched) and not self._agrees_with_edits(entry):
            return False
        for name in entry.__dataclass_fields__:
            value = getattr(entry, name)
            texts = list(value.values()) if isinstance(value, dict) else [value]
            if not all(self._contains_entities(text) for text in texts if isinstance(text, str)):
                return False
        return True

    def _agrees_with_edits(self, file: FileTouched) -> bool:
        """False if a file was deleted or created according to the reply only."""
        claimed = _STATE_WORDS.get(file.change.lower().partition(" ")[0].rstrip(".,;:"))
        return claimed is None or self._file_states.get(file.path, claimed) == claimed

    def _contains_entities(self, text: str) -> bool:
        return all(key in self._text for key, entity_type in find_entities(text) if entity_type in _VERBATIM_TYPES)


def _words(text: str) -> frozenset[str]:
    return frozenset(_RULE_WORD.findall(text.lower()))


def _is_negated(words: frozenset[str]) -> bool:
    return len(words & _NEGATIONS) % 2 == 1
