"""Split text into search terms.

An identifier or path is one term, and each of its parts is another: `src/app/readUser_id.py` is found by its full
path, its file name, `readUser_id`, `read`, `user` and `id`. Pure functions.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

# An identifier, path or id in lower case, and in its form for a list.
Name = tuple[str, str]

MAX_TERM_CHARS: Final = 120
# The rest of a longer token, such as encoded data, is not searched. Caches keep only tokens of the length of a term.
_MAX_TOKEN_CHARS: Final = 700
# Accents and vowel signs belong to a word, but \w has none of them.
_MARKS: Final = (
    "\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u08e3-\u0963\u0981-\u0df3"
    "\u0e31-\u0e4e\u0eb1-\u0ecd\u0f18-\u0fbc\u102b-\u109d\u17b4-\u17d3\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\u3099\u309a"
)
_WORD_CHAR: Final = rf"[\w{_MARKS}]"
_TOKEN: Final = re.compile(rf"{_WORD_CHAR}+(?:[-./:@#\\]{_WORD_CHAR}+)*")
# Tokens of at least four characters, several times as fast to find. A run of separators does not end such a token.
# Characters are listed, because a category such as \w is several times slower. Rare letters end a token.
_ASCII: Final = "A-Za-z0-9_"
_LETTERS: Final = f"{_ASCII}\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u2c00-\u2dff\u3040-\ud7ff\uf900-\ufdff\ufe70-\ufefc"
_LONG_TOKEN: Final = re.compile(rf"[{_LETTERS}][{_LETTERS}\-./:@#\\]{{2,254}}[{_LETTERS}]")
_ASCII_LONG_TOKEN: Final = re.compile(rf"[{_ASCII}][{_ASCII}\-./:@#\\]{{2,254}}[{_ASCII}]")
SEPARATOR_CHARS: Final = "-./:@#\\"
_SEPARATORS: Final = re.compile(r"[-./:@#\\]+")
# A space for each character that no identifier or path has.
_TOKEN_CHARS: Final = bytes(
    c if chr(c).isalnum() or chr(c) in f"_{SEPARATOR_CHARS}" else ord(" ") for c in range(128)
).ljust(256)
_MAX_CACHED_NAMES: Final = 65_536
_PLAIN_WORD: Final = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+")
_WORD_PARTS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")
_UNSPACED_RANGES: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNSPACED: Final = re.compile(f"[{_UNSPACED_RANGES}]")
_UNSPACED_WORD: Final = re.compile(rf"{_WORD_CHAR}*[{_UNSPACED_RANGES}]{_WORD_CHAR}*")
# `a` for a small letter in ASCII, `A` for a capital one, and a space for any other character.
_LETTER_CLASSES: Final = bytes(
    ord("a" if chr(c).islower() else "A" if chr(c).isupper() else " ") for c in range(128)
).ljust(256)
_CAMEL_CASE: Final = re.compile(r"[a-z][A-Z]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_DIGIT: Final = re.compile(r"\d")
_MIN_NAME_CHARS: Final = 4
_MIN_ID_DIGITS: Final = 5
_MAX_NAME_CHARS: Final = 80
_MAX_NAME_FOLDERS: Final = 3
# The line, and the first word of it, that a search prints after the name of a file. A host keeps its port.
_LINE_NUMBER: Final = re.compile(
    r"(\.(?!(?:com|org|net|io|dev|local|internal|svc)\b)[A-Za-z]\w{0,5})[:-]\d+(?:[:-].*)?$"
)
_MAX_SUFFIXES: Final = 3
_STOP = (
    "the a an of to in and or for on with is are was be this that it as at by from i you we let me my your now will so "
    "if not do"
)
_STOP_WORDS: Final = frozenset(_STOP.split())


def terms_of(text: str) -> set[str]:
    """Return the terms of a text."""
    terms: set[str] = set()
    for token in set(_TOKEN.findall(text)):
        terms.update(_expand(token))
    return terms


def query_words(query: str, max_words: int) -> list[tuple[str, ...]]:
    """Return the terms of each word of a query, the whole word first, without words that say nothing.

    Of a longer query, such as a pasted log, the longest words count. Names are among them, wherever they stand.
    """
    tokens = _TOKEN.findall(compose(query))
    if len(tokens) > max_words:
        longest = set(sorted(dict.fromkeys(tokens), key=len, reverse=True)[:max_words])
        tokens = [token for token in dict.fromkeys(tokens) if token in longest]
    words = map(_expand, tokens)
    return [terms for terms in words if len(terms[0]) > 1 and terms[0] not in _STOP_WORDS]


def query_characters(query: str, max_characters: int) -> list[tuple[str, ...]]:
    """Return the symbols of a query, such as emoji, and its letters of scripts without capitals, each as a word.

    They are what can be searched in a query without words. One Chinese character can be a word.
    """
    characters = filter(_is_searchable, dict.fromkeys(compose(query)))
    return [(character,) for character in islice(characters, max_characters)]


def _is_searchable(character: str) -> bool:
    has_case = character.lower() != character.upper()
    return not character.isascii() and not has_case and unicodedata.category(character)[0] in "LNS"


def compose(text: str) -> str:
    """Return a text with each letter and its accent as one character. File names of macOS have two."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def parts_of(term: str) -> list[str]:
    """Return the words of a term that a tokenizer for words sees, such as the folders of a path."""
    return _PLAIN_WORD.findall(term)


def find_term(lower: str, term: str, start: int = 0) -> int:
    """Return the place of a term in a text in lower case, and -1 if it has none.

    A word may be part of an identifier, and a character part of a word. A number, id or path is only found whole:
    `module_3` is not in `module_32`.
    """
    index = lower.find(term, start)
    if term.isalpha() or len(term) == 1:
        return index
    while index >= 0:
        end = index + len(term)
        if not lower[index - 1 : index].isalnum() and not lower[end : end + 1].isalnum():
            return index
        index = lower.find(term, index + 1)
    return -1


def hidden_parts(text: str) -> str:
    """Return the terms that a tokenizer for words does not see: parts of camelCase, and pairs of characters."""
    parts = list(map(_camel_parts, _mixed_words(text)))
    if not text.isascii() and _UNSPACED.search(text):
        parts += (term for word in set(_UNSPACED_WORD.findall(text)) for term in _expand(word))
    return " ".join(parts)


@functools.lru_cache(maxsize=16_384)
def _camel_parts(word: str) -> str:
    return " ".join(_WORD_PARTS.findall(word))


def _mixed_words(text: str) -> Iterable[str]:
    """Return the words with a capital letter after a small one, or with two before a small one."""
    classes = f"{text} ".encode("ascii", "replace").translate(_LETTER_CLASSES).replace(b"AAa", b"AaA")
    words = []
    index = classes.find(b"aA")
    while index >= 0:
        end = classes.find(b" ", index)
        words.append(text[classes.rfind(b" ", 0, index) + 1 : end])
        index = classes.find(b"aA", end)
    return dict.fromkeys(words)


def names_in(text: str) -> dict[str, str]:
    """Return the identifiers, paths and ids of a text in their order: the form for a list, by the one in lower case."""
    return dict(names_of(rough_tokens(text)))


def names_of(tokens: Iterable[str]) -> Iterator[Name]:
    """Return the identifiers, paths and ids among tokens."""
    return filter(None, map(_NAMES.__getitem__, tokens))


def rough_tokens(text: str) -> list[str]:
    """Return the words, identifiers and paths of a text, faster than a pattern but with separators at their ends."""
    if text.isascii():
        return text.encode().translate(_TOKEN_CHARS).decode().split()
    return _LONG_TOKEN.findall(text)


def long_tokens(text: str) -> list[str]:
    """Return the words, identifiers and paths of at least four characters, without their parts."""
    return (_ASCII_LONG_TOKEN if text.isascii() else _LONG_TOKEN).findall(text)


def _is_name_of_letters(token: str) -> bool:
    is_name = token.isupper() or _CAMEL_CASE.search(token) is not None
    return is_name and _MIN_NAME_CHARS <= len(token) <= _MAX_NAME_CHARS


def name_of(token: str) -> Name | None:
    """Return an identifier, path or id, and None for another word or a small number.

    The name of a file has no line number, and of a long path the end is enough.
    """
    token = token.strip(SEPARATOR_CHARS)
    if token.isalpha():
        return (token.lower(), token) if _is_name_of_letters(token) else None
    if len(token) < _MIN_NAME_CHARS or (_LETTER.search(token) is None and len(_DIGIT.findall(token)) < _MIN_ID_DIGITS):
        return None
    line_number = _LINE_NUMBER.search(token) if "." in token else None
    name = token[: line_number.end(1)] if line_number else token
    if name.count("/") > _MAX_NAME_FOLDERS:
        end = "/".join(name.split("/")[-_MAX_NAME_FOLDERS:])
        return (end.lower(), f"…/{end}") if len(end) < _MAX_NAME_CHARS - 1 else None
    return (name.lower(), name) if len(name) <= _MAX_NAME_CHARS else None


class _NameCache(dict[str, Name | None]):
    """The name of each token that was read before, with faster lookups than `lru_cache`. Long tokens are not kept."""

    def __missing__(self, token: str) -> Name | None:
        name = name_of(token)
        if len(token) <= MAX_TERM_CHARS:
            if len(self) >= _MAX_CACHED_NAMES:
                self.clear()
            self[token] = name
        return name


_NAMES: Final = _NameCache()


def _expand(token: str) -> tuple[str, ...]:
    """Return a token and its parts, in lower case."""
    return _expand_term(token) if len(token) <= MAX_TERM_CHARS else _find_parts(token[:_MAX_TOKEN_CHARS])


@functools.lru_cache(maxsize=65_536)
def _expand_term(token: str) -> tuple[str, ...]:
    return _find_parts(token)


def _find_parts(token: str) -> tuple[str, ...]:
    lower = token.lower()
    if token.isascii() and token.isalpha() and (token.islower() or token[1:].islower()):
        return (lower[:MAX_TERM_CHARS],)
    if _UNSPACED.search(token):
        # Languages without spaces: every pair of characters is a term.
        return tuple(lower[index : index + 2] for index in range(max(1, len(lower) - 1)))
    parts = {lower[:MAX_TERM_CHARS]: None}
    folders = lower.split("/")
    for size in range(1, min(_MAX_SUFFIXES, len(folders) - 1) + 1):
        parts["/".join(folders[-size:])[:MAX_TERM_CHARS]] = None
    for segment in _SEPARATORS.split(token):
        if len(segment) > 1:
            parts[segment.lower()[:MAX_TERM_CHARS]] = None
        for part in _WORD_PARTS.findall(segment):
            if len(part) > 1:
                parts[part.lower()[:MAX_TERM_CHARS]] = None
    return tuple(parts)
