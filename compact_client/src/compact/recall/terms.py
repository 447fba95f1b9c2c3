"""Read the words, identifiers and phrases of a text. Stop words and irregular forms are data. Pure functions."""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from importlib import resources
from itertools import accumulate
from typing import Any, Final

from compact.recall.sections import Section

_MAX_TOKEN_CHARS: Final = 120
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# A letter or mark that folding may change. Most other characters, such as lines of tables, are left as they are.
_FOREIGN: Final = re.compile("[^\\W\x00-\x7f]|[\u0300-\u036f]")
_QUOTE: Final = re.compile(r'"([^"\n]{3,200})"|“([^”\n]{3,200})”')
_TOKEN: Final = re.compile(r"\w+(?:[-./:@#\\]+\w+)*")
_WORD: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")
# `a` for a small letter in ASCII, `A` for a capital one, and a space for any other character.
_LETTER_CLASSES: Final = bytes(
    ord("a" if chr(c).islower() else "A" if chr(c).isupper() else " ") for c in range(128)
).ljust(256)
_SEPARATORS: Final = "-./:@#\\"
# A space for each character that no identifier or path has.
_TOKEN_CHARS: Final = bytes(
    c if chr(c).isalnum() or chr(c) in f"_{_SEPARATORS}" else ord(" ") for c in range(128)
).ljust(256)


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a query: a section must have each of these words, in one of its forms."""

    words: tuple[tuple[str, ...], ...]
    exact: str = ""
    """The folded text of an identifier or quoted phrase, which a section must have as it is."""

    @property
    def expression(self) -> str:
        """The term in the language of FTS5."""
        groups = (" OR ".join(f'"{form}"' for form in forms) for forms in self.words)
        return " AND ".join(f"({group})" for group in groups)


@functools.cache
def _languages() -> Any:
    return json.loads(resources.files(__package__).joinpath("languages.json").read_text("utf-8"))


@functools.cache
def _stop_words() -> list[frozenset[str]]:
    return [frozenset(fold(words).split()) for words in _languages()["stop_words"].values()]


@functools.cache
def _forms() -> dict[str, tuple[str, ...]]:
    groups = (tuple(group.split()) for group in _languages()["irregular_forms"])
    return {word: group for group in groups for word in group}


def fold(text: str) -> str:
    """Return a text without case, accents and vowel signs. Half of a surrogate pair becomes a question mark."""
    return text.lower() if text.isascii() else _strip_marks(text.casefold())


def _strip_marks(text: str) -> str:
    if _FOREIGN.search(text) is None:
        return text.encode("utf-8", "replace").decode()
    marked = unicodedata.normalize("NFKD", text)
    plain = "".join(character for character in marked if unicodedata.category(character)[0] != "M")
    return unicodedata.normalize("NFC", plain).encode("utf-8", "replace").decode()


def documents(sections: Sequence[Section]) -> Iterator[tuple[int, str]]:
    """Yield the row and what the database indexes of each section: its words, and those its tokenizer does not see."""
    # Parts of identifiers are looked for in all texts at once, which takes a quarter of the time.
    texts = [f"{section.text}\n{section.context}" for section in sections]
    ends = list(accumulate(len(text) + 1 for text in texts))
    hidden: dict[int, list[str]] = {}
    for start, parts in _camel_words("\n".join(texts)):
        hidden.setdefault(bisect_right(ends, start), []).extend(parts)
    for number, (section, text) in enumerate(zip(sections, texts, strict=True)):
        folded, others = text, hidden.get(number, [])
        if not text.isascii():
            folded = fold(text)
            others = [*others, *_pairs(folded), *(name for name, _ in _symbols(folded))]
        yield section.row, f"{folded}\n{' '.join(others)}" if others else folded


def count_terms(text: str, terms: Iterable[Term]) -> int:
    """Return how many terms a text seems to have."""
    folded = fold(text)
    return sum(
        any(form in folded for forms in term.words for form in forms) or bool(term.exact and term.exact in folded)
        for term in terms
    )


def contains(text: str, exact: str) -> bool:
    """Return True if a folded text has an identifier or phrase as a whole: `module_3` is not in `module_32`."""
    index = text.find(exact)
    while index >= 0:
        end = index + len(exact)
        if not text[index - 1 : index].isalnum() and not text[end : end + 1].isalnum():
            return True
        index = text.find(exact, index + 1)
    return False


def parse_terms(query: str) -> dict[Term, list[int]]:
    """Return the terms of a query without stop words, each with its places among the words of the query.

    Terms are quoted phrases, identifiers as a whole, words, and the parts of identifiers.
    """
    plain = query if query.isascii() else _strip_marks(query)
    tokens = [token for token in _TOKEN.findall(plain) if len(token) <= _MAX_TOKEN_CHARS]
    words = [fold(word) for token in tokens for word in _WORD.findall(token)]
    stop = max(_stop_words(), key=lambda stop: sum(word in stop for word in words))
    terms = {phrase: [0] for phrase in _phrases(query)}
    for place, token in enumerate(tokens):
        for term in _token_terms(token, stop):
            terms.setdefault(term, []).append(place)
    # A query such as `埠` or an emoji: one character can be a word.
    return terms or {Term(((name,),), character): [0] for name, character in _symbols(fold(query))}


def _phrases(query: str) -> Iterator[Term]:
    for first, second in _QUOTE.findall(query):
        if phrase := _exact_term(first or second):
            yield phrase


def _token_terms(token: str, stop: AbstractSet[str]) -> Iterator[Term]:
    """Yield the terms of a word or identifier."""
    words = [fold(word) for word in _WORD.findall(token) if _UNSPACED.search(word) is None]
    for word in (*words, *map(fold, _camel_parts(token)), *_pairs(fold(token))):
        if len(word) > 1 and word not in stop:
            yield Term((_forms().get(word, (word,)),))
    name = _exact_term(token) if is_name(token) else None
    if name is not None:
        yield name


def is_name(token: str) -> bool:
    """Return True for an identifier, path or id, and False for a plain word or a small number."""
    if token.isalpha():
        return bool(_camel_parts(token))
    digits = sum(map(str.isdigit, token))
    return digits >= 5 or (digits < len(token.strip(_SEPARATORS)) and len(token) >= 3 and any(map(str.isalpha, token)))


def words_of(text: str) -> set[str]:
    """Return the words, identifiers and paths of a text, which tell what it adds to another."""
    if text.isascii():
        tokens = text.lower().encode().translate(_TOKEN_CHARS).decode().split()
        return {token.strip(_SEPARATORS) for token in tokens}
    return set(_TOKEN.findall(fold(text)))


def _exact_term(text: str) -> Term | None:
    folded = " ".join(fold(text).split())
    words = tuple((word,) for word in dict.fromkeys(_WORD.findall(folded)) if _UNSPACED.search(word) is None)
    return Term(words, folded) if words else None


def _camel_parts(text: str) -> list[str]:
    return [part for _, parts in _camel_words(text) for part in parts]


def _camel_words(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the place and parts of each word with a capital letter after a small one, or two before a small one."""
    classes = f"{text} ".encode("ascii", "replace").translate(_LETTER_CLASSES).replace(b"AAa", b"AaA")
    index = classes.find(b"aA")
    while index >= 0:
        start, end = classes.rfind(b" ", 0, index) + 1, classes.find(b" ", index)
        yield start, _CAMEL.findall(text[start:end])
        index = classes.find(b"aA", end)


def _pairs(folded: str) -> Iterator[str]:
    """Yield each pair of characters of languages without spaces."""
    for run in _UNSPACED.findall(folded):
        yield from (run[index : index + 2] for index in range(len(run) - 1))


def _symbols(folded: str) -> Iterator[tuple[str, str]]:
    """Yield a name for each symbol, and for each character of languages without spaces."""
    for character in dict.fromkeys(folded):
        kinds = "LNS" if _UNSPACED.match(character) else "S"
        if not character.isascii() and unicodedata.category(character)[0] in kinds:
            yield f"u{ord(character):x}", character
