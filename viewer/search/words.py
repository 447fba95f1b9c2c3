"""Split texts into the words of the search index, and find words in a text. Pure.

An identifier or a path counts as a whole and in parts: `src/auth/login.py` is found by `src/auth`, `login.py`, `login`
and `py`. Words are compared without case. Each word in the index starts with its project and its class, so that one
project never reads the entries of another, and readers without the right to view payloads only match public words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_WORD_CHARS = 60
MAX_TEXT_WORDS = 20_000
"""Distinct words of one text in the index. The rest of a longer text is not found."""
MAX_QUERY_WORDS = 12
PUBLIC, CONTENT = "p", "c"
# Letters, digits and the characters inside identifiers, paths, addresses and e-mail addresses.
_TERM = re.compile(r"[^\W_][\w./\\:@+#=~-]*", re.ASCII | re.IGNORECASE)
_UNICODE_TERM = re.compile(r"[^\W_][\w./\\:@+#=~-]*")
_SEGMENT = re.compile(r"[/\\:@=#]+")
_PART = re.compile(r"[\W_]+")
_SNIPPET_BEFORE, _SNIPPET_CHARS = 60, 200


def words_of(texts: Iterable[str]) -> set[str]:
    """Return the distinct words of texts, at most `MAX_TEXT_WORDS`."""
    words: set[str] = set()
    for text in texts:
        for term in set(_terms(text)):
            words.update(_with_parts(term))
            if len(words) >= MAX_TEXT_WORDS:
                return words
    return words


def lexemes(words: Iterable[str], *, project_id: int, kind: str) -> list[str]:
    """Return the entries of words in the index. `kind` is `PUBLIC` or `CONTENT`."""
    return [f"{project_id}{kind}{word}" for word in words]


def _terms(text: str) -> list[str]:
    normal = text if text.isascii() else unicodedata.normalize("NFKC", text)
    pattern = _TERM if normal.isascii() else _UNICODE_TERM
    return [term.rstrip("./\\:@+#=~-_") for term in pattern.findall(normal.lower())]


def _with_parts(term: str) -> Iterable[str]:
    yield term[:MAX_WORD_CHARS]
    if term.isalnum():
        return
    for segment in _SEGMENT.split(term):
        if segment:
            yield segment[:MAX_WORD_CHARS]
    for part in _PART.split(term):
        if part:
            yield part[:MAX_WORD_CHARS]


@dataclass(frozen=True, slots=True)
class Query:
    """The words that a person typed. The last one may be incomplete, so each matches as a prefix."""

    terms: Sequence[str]

    @classmethod
    def parse(cls, text: str) -> Query:
        terms = dict.fromkeys(term[:MAX_WORD_CHARS] for term in _terms(text[:500]) if term)
        return cls(list(terms)[:MAX_QUERY_WORDS])

    def tsquery(self, project_id: int, *, with_content: bool) -> str:
        """Return the query for Postgres: every term as a prefix, or all of its parts."""
        kinds = (PUBLIC, CONTENT) if with_content else (PUBLIC,)
        return " & ".join(_any(self._alternatives(term), project_id, kinds) for term in self.terms)

    def _alternatives(self, term: str) -> list[list[str]]:
        parts = [part for part in _PART.split(term) if part]
        return [[term]] if parts == [term] or not parts else [[term], parts]

    def matches(self, text: str) -> list[tuple[int, int]]:
        """Return the positions of the terms, and of their parts, at the beginnings of words in a text."""
        needles = {part for term in self.terms for part in (term, *_PART.split(term)) if part}
        if not needles:
            return []
        longest_first = sorted(needles, key=len, reverse=True)
        pattern = re.compile(r"(?<![^\W_])(?:" + "|".join(map(re.escape, longest_first)) + ")", re.IGNORECASE)
        return [match.span() for match in pattern.finditer(text)]


def _any(alternatives: list[list[str]], project_id: int, kinds: Sequence[str]) -> str:
    groups = [
        " & ".join(f"{_quote(f'{project_id}{kind}{word}')}:*" for word in words)
        for words in alternatives
        for kind in kinds
    ]
    return "(" + " | ".join(f"({group})" for group in groups) + ")"


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
        if spans := query.matches(text):
            return _cut(text, spans)
    return [Part(_clean(first[:_SNIPPET_CHARS]), is_match=False)] if first else []


def _cut(text: str, spans: list[tuple[int, int]]) -> list[Part]:
    begin = max(0, spans[0][0] - _SNIPPET_BEFORE)
    end = min(len(text), begin + _SNIPPET_CHARS)
    parts, position = [Part("…", is_match=False)] if begin else [], begin
    for start, stop in spans:
        if start >= end:
            break
        if start < position:
            continue
        parts += [Part(_clean(text[position:start]), is_match=False), Part(text[start:stop], is_match=True)]
        position = stop
    tail = _clean(text[position:end]) + ("…" if end < len(text) else "")
    return [part for part in (*parts, Part(tail, is_match=False)) if part.text]


def _clean(text: str) -> str:
    """Join the lines of a text for one line of results."""
    return re.sub(r"\s+", " ", text)
