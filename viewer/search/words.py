"""Split texts into the words of the search index, and find words in a text. Pure.

An identifier or a path counts as a whole and in parts: `src/auth/login.py` is found by `src/auth`, `login.py`, `login`
and `py`. Words are compared without case. Each word in the index starts with its project and its class, so that one
project never reads the entries of another, and readers without the right to view payloads only match public words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import filterfalse, islice, repeat, takewhile

MAX_WORD_CHARS = 60
MAX_TEXT_WORDS = 20_000
"""Distinct words of one text in the index. The rest of a longer text is not found."""
MAX_QUERY_WORDS = 12
PUBLIC, CONTENT = "p", "c"
# Characters inside identifiers, paths, addresses and e-mail addresses.
_INNER = "_./\\:@+#=~-"
_TERM = re.compile(r"[^\W_][\w./\\:@+#=~-]*")
_PART = re.compile(r"[\W_]+")
# Normalization sorts the combining marks of a character in quadratic time, so longer runs are split.
_LONG_RUN = re.compile(r"\S{128}")
# Two characters represent whole phrases. Normalization would expand a text of them to six times its size.
_PHRASE = re.compile("[\ufdfa\ufdfb]")
_SPACE = ord(" ")
# Translating bytes and splitting them is several times faster than a regular expression, and most words are ASCII.
_TO_TERMS = bytes(
    code if code >= 128 or chr(code).isalnum() or chr(code) in _INNER else _SPACE for code in range(256)
).lower()
_TO_SEGMENTS = bytes(_SPACE if chr(code) in "/\\:@=#" else code for code in range(256))
_TO_PARTS = bytes(_SPACE if chr(code) in _INNER else code for code in range(256))
_SNIPPET_BEFORE, _SNIPPET_CHARS = 60, 200


def words_of(texts: Iterable[str]) -> set[str]:
    """Return the distinct words of texts, at most `MAX_TEXT_WORDS`."""
    words: set[str] = set()
    for text in texts:
        terms = _distinct_terms(text)
        words |= terms
        compounds = " ".join(filterfalse(str.isalnum, terms))
        words.update(_split(compounds, _TO_SEGMENTS), _split(compounds, _TO_PARTS))
        if len(words) >= MAX_TEXT_WORDS:
            break
    if max(map(len, words), default=0) > MAX_WORD_CHARS:
        words = {word[:MAX_WORD_CHARS] for word in words}
    return set(islice(words, MAX_TEXT_WORDS)) if len(words) > MAX_TEXT_WORDS else words


def lexemes(words: Iterable[str], *, project_id: int, kind: str) -> list[str]:
    """Return the entries of words in the index. `kind` is `PUBLIC` or `CONTENT`."""
    return [f"{project_id}{kind}{word}" for word in words]


def _split(text: str, separators: bytes) -> list[str]:
    return text.encode(errors="replace").translate(separators).decode().split()


def _distinct_terms(text: str) -> set[str]:
    runs = set(_split(text, _TO_TERMS))
    others = set() if text.isascii() else set(filterfalse(str.isascii, runs))
    other_terms = _terms(_LONG_RUN.sub(r"\g<0> ", " ".join(others)))
    return {*map(str.strip, runs - others, repeat(_INNER)), *other_terms} - {""}


def _terms(text: str) -> list[str]:
    """Return the terms of a text in their order."""
    normal = unicodedata.normalize("NFKC", _PHRASE.sub(" ", text)).lower()
    return [term.rstrip(_INNER) for term in _TERM.findall(normal)]


@dataclass(frozen=True, slots=True)
class Query:
    """The words that a person typed. The last one may be incomplete, so each matches as a prefix."""

    terms: Sequence[str]

    @classmethod
    def parse(cls, text: str) -> Query:
        terms = dict.fromkeys(term[:MAX_WORD_CHARS] for term in _terms(text[:500]))
        return cls(list(terms)[:MAX_QUERY_WORDS])

    @property
    def has_names(self) -> bool:
        """True if a term is an identifier, a path or an address."""
        return any(self._is_name(term) for term in self.terms)

    def tsquery(self, project_id: int, *, with_content: bool, only_exact: bool = False) -> str:
        """Return the query for Postgres: every term as a prefix, or all of its parts.

        With `only_exact`, identifiers and paths match as they are, and otherwise only what such a query does not find.
        """
        kinds = (PUBLIC, CONTENT) if with_content else (PUBLIC,)
        words = {term: _any(self._alternatives(term), project_id, kinds) for term in self.terms}
        exact = {term: _exact(term, project_id, kinds) for term in self.terms if self._is_name(term)}
        if only_exact:
            return " & ".join({**words, **exact}.values())
        others = f" & !({' & '.join(exact.values())})" if exact else ""
        return " & ".join(words.values()) + others

    @staticmethod
    def _is_name(term: str) -> bool:
        return len(list(filter(None, _PART.split(term)))) > 1

    def _alternatives(self, term: str) -> list[list[str]]:
        parts = [part for part in _PART.split(term) if part]
        return [[term]] if parts == [term] or not parts else [[term], parts]

    def matches(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the positions of the terms, and of their parts, at the beginnings of words in a text."""
        needles = {part for term in self.terms for part in (term, *_PART.split(term)) if part}
        if not needles:
            return
        longest_first = sorted(needles, key=len, reverse=True)
        pattern = re.compile(r"(?<![^\W_])(?:" + "|".join(map(re.escape, longest_first)) + ")", re.IGNORECASE)
        yield from (match.span() for match in pattern.finditer(text))


def _any(alternatives: list[list[str]], project_id: int, kinds: Sequence[str]) -> str:
    groups = [
        " & ".join(f"{_quote(f'{project_id}{kind}{word}')}:*" for word in words)
        for words in alternatives
        for kind in kinds
    ]
    return "(" + " | ".join(f"({group})" for group in groups) + ")"


def _exact(term: str, project_id: int, kinds: Sequence[str]) -> str:
    return "(" + " | ".join(_quote(f"{project_id}{kind}{term}") for kind in kinds) + ")"


def _quote(lexeme: str) -> str:
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a snippet. Matches are highlighted."""

    text: str
    is_match: bool


def snippet(texts: Iterable[str], query: Query) -> list[Part]:
    """Return the surroundings of the first match, in parts. Without a match, return the beginning of the first text."""
    first = ""
    for text in texts:
        first = first or text
        spans = query.matches(text)
        if (span := next(spans, None)) is not None:
            return _cut(text, span, spans)
    return [Part(_clean(first[:_SNIPPET_CHARS]), is_match=False)] if first else []


def _cut(text: str, first: tuple[int, int], others: Iterator[tuple[int, int]]) -> list[Part]:
    begin = max(0, first[0] - _SNIPPET_BEFORE)
    end = min(len(text), begin + _SNIPPET_CHARS)
    parts, position = [Part("…", is_match=False)] if begin else [], begin
    for start, stop in (first, *takewhile(lambda span: span[0] < end, others)):
        parts += [Part(_clean(text[position:start]), is_match=False), Part(text[start:stop], is_match=True)]
        position = stop
    tail = _clean(text[position:end]) + ("…" if end < len(text) else "")
    return [part for part in (*parts, Part(tail, is_match=False)) if part.text]


def _clean(text: str) -> str:
    """Join the lines of a text for one line of results."""
    return re.sub(r"\s+", " ", text)
