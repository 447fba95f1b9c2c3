"""Replace secrets with placeholders that only this process can turn back.

`password=<REDACTED>` says that something is missing. `password=REDACTED_12_001` also says which value it was, so that a
summary can be restored before it enters the prompt again. The number is that of the message in the log and the position
of the value in it, so another process that reads the same message gives the value the same name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import islice, pairwise
from typing import Any

from compact.redaction.findings import MASK

_PREFIX = "REDACTED_"
_PLACEHOLDER = re.compile(r"REDACTED_\d+_\d{3,}")
_ANY_MASK = re.compile(f'("{MASK}"|{MASK})')
_WORD = re.compile(r"\s+|\S+")
_MAX_VALUES = 10_000
_MAX_COMPARED_WORDS = 20_000

Piece = tuple[str, str | None]
"""A text that stays, followed by the value that was masked after it. None after the last text."""


class PlaceholderTable:
    """The masked values of one session. It never leaves the process."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._values)

    def namer(self, message_number: int) -> Namer:
        """Return a function that names the masked values of one message, in their order."""
        return Namer(self, message_number)

    def restore(self, text: str) -> str:
        """Replace the known placeholders of a text with their values."""
        if _PREFIX not in text:
            return text
        return _PLACEHOLDER.sub(lambda match: self._values.get(match[0], match[0]), text)

    def learn(self, template: str, text: str) -> bool:
        """Read the values of placeholders from a text that was restored in another process.

        Return False if the text does not follow the template.
        """
        values = template_values(template, text)
        if values is None:
            return False
        for name, value in values.items():
            self._values.setdefault(name, value)
            self._names.setdefault(value, name)
        return True

    def mask_values(self, text: str, *, min_chars: int) -> str:
        """Mask every known value of at least this length."""
        for value in self._names:
            if len(value) >= min_chars and value in text:
                text = text.replace(value, MASK)
        return text

    def name_of(self, value: str, suggestion: str) -> str | None:
        """Return the placeholder of a value. The first name it gets stays. None if the table is full."""
        name = self._names.get(value)
        if name is None and len(self._values) < _MAX_VALUES:
            name = suggestion
            while name in self._values:
                name += "0"  # another process used this name for another value
            self._names[value] = name
            self._values[name] = value
        return name


class Namer:
    """Gives the masked values of one message their placeholders."""

    def __init__(self, table: PlaceholderTable, message_number: int) -> None:
        self._table = table
        self._number = message_number
        self._position = 0

    def __call__(self, value: str) -> str:
        # Count every value, also one that has a name, so that the numbers do not depend on earlier messages.
        self._position += 1
        if value == MASK:
            return MASK
        return self._table.name_of(value, f"{_PREFIX}{self._number}_{self._position:03d}") or MASK

    def rename(self, value: str) -> str:
        """Name a value of a derived text, which may contain placeholders already."""
        return value if _PLACEHOLDER.fullmatch(value) else self(self._table.restore(value))


def template_values(template: str, text: str) -> dict[str, str] | None:
    """Return the value of each placeholder of a template in a restored text, or None if the text is another one."""
    pieces = _align(text, _PLACEHOLDER.split(template))
    if pieces is None:
        return None
    values: dict[str, str] = {}
    for name, (_, value) in zip(_PLACEHOLDER.findall(template), pieces, strict=False):
        if values.setdefault(name, value or "") != value:
            return None
    return values


def has_placeholder(text: str) -> bool:
    """True if a text contains a placeholder, or looks as if it did."""
    return _PREFIX in text and _PLACEHOLDER.search(text) is not None


def collapse(text: str) -> str:
    """Replace all placeholders with the plain mask."""
    return _PLACEHOLDER.sub(MASK, text) if _PREFIX in text else text


def _have_same_size(raw: Any, masked: Any, types: type[Any] | tuple[type[Any], ...]) -> bool:
    return isinstance(raw, types) and isinstance(masked, types) and len(raw) == len(masked)


def reversible_tree(raw: Any, masked: Any, name: Callable[[str], str]) -> Any:
    """Return the masked JSON value with placeholders for the values that are missing in it."""
    if isinstance(raw, str):
        return reversible_text(raw, masked, name) if isinstance(masked, str) else masked
    if _have_same_size(raw, masked, dict):
        return {
            reversible_tree(raw_key, key, name): reversible_tree(raw[raw_key], item, name)
            for raw_key, (key, item) in zip(raw, masked.items(), strict=True)
        }
    if _have_same_size(raw, masked, (list, tuple)):
        items = [reversible_tree(raw_item, item, name) for raw_item, item in zip(raw, masked, strict=True)]
        return items if isinstance(masked, list) else tuple(items)
    if masked == MASK and raw is not None:
        return name(json.dumps(raw, ensure_ascii=False, default=str))
    return masked


def reversible_text(raw: str, masked: str, name: Callable[[str], str]) -> str:
    """Return the masked text with placeholders. Restoring them gives the raw text again."""
    if raw == masked:
        # A text that looks like a placeholder must not be replaced with another message's secret.
        return _PLACEHOLDER.sub(lambda match: name(match[0]), raw) if _PREFIX in raw else raw
    if masked == MASK:
        return name(raw)
    pieces = _align(raw, masked.split(MASK)) or _align_quoted(raw, masked) or _compare(raw, masked)
    if pieces is None:
        return masked
    texts: list[str] = []
    for index, (text, value) in enumerate(pieces):
        texts.append(_PLACEHOLDER.sub(lambda match: name(match[0]), text) if _PREFIX in text else text)
        if value:
            # Digits after a placeholder would change its number, so they become part of the value.
            following, next_value = pieces[index + 1]
            rest = following.lstrip("0123456789")
            pieces[index + 1] = (rest, next_value)
            texts.append(name(value + following[: len(following) - len(rest)]))
    return "".join(texts)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with a function applied to all of its texts."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {map_texts(key, change): map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [map_texts(item, change) for item in value]
    return value


def _align(raw: str, texts: list[str]) -> list[Piece] | None:
    """Find the texts in the raw one, in order. What lies between them are the values. None if they are not there."""
    if len(texts) < 2 or not raw.startswith(texts[0]) or not raw.endswith(texts[-1]):
        return None
    pieces: list[Piece] = []
    position, end = len(texts[0]), len(raw) - len(texts[-1])
    for before, text in pairwise(texts[:-1]):
        at = raw.find(text, position + 1, end)
        if at < 0:
            return None
        pieces.append((before, raw[position:at]))
        position = at + len(text)
    if position > end:
        return None
    return [*pieces, (texts[-2], raw[position:end]), (texts[-1], None)]


def _align_quoted(raw: str, masked: str) -> list[Piece] | None:
    """Align a text in which a bare JSON value became a quoted mask: `{"pin": 1234}` and `{"pin": "<REDACTED>"}`."""
    parts = _ANY_MASK.split(masked)
    pieces = _align(raw, parts[::2])
    if pieces is None:
        return None
    quoted: list[Piece] = []
    opening = ""
    for (text, value), mask in zip(pieces, [*parts[1::2], ""], strict=True):
        quote = '"' if mask.startswith('"') else ""
        is_quoted = quote and value is not None and len(value) > 1 and value[0] == value[-1] == quote
        quoted.append((opening + text + quote, value[1:-1] if is_quoted and value else value))
        opening = quote
    return quoted


def _compare(raw: str, masked: str) -> list[Piece] | None:
    """Compare word by word, for a redaction function of the caller that uses its own masks."""
    raw_words, masked_words = _first_words(raw), _first_words(masked)
    if len(raw_words) + len(masked_words) > _MAX_COMPARED_WORDS:
        return None
    pieces: list[Piece] = []
    text = ""
    for tag, start, end, _, _ in SequenceMatcher(None, raw_words, masked_words, autojunk=False).get_opcodes():
        if tag == "equal":
            text += "".join(raw_words[start:end])
        elif start < end:
            pieces.append((text, "".join(raw_words[start:end])))
            text = ""
    return [*pieces, (text, None)]


def _first_words(text: str) -> list[str]:
    """Return the words of a text and the spaces between them, at most one more than can be compared."""
    return [match[0] for match in islice(_WORD.finditer(text), _MAX_COMPARED_WORDS + 1)]
