"""A question: its terms, and what limits or prefers who said it and when.

`role:user`, `turn:12`, `after:2026-11-01` and `before:2026-11-30` limit a question. "last Tuesday" and "did I say" are
soft preferences, because a question may be wrong about them. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, Literal

from compact.recall.sections import Source
from compact.recall.terms import Term, parse_terms

_MAX_CHARS: Final = 20_000
_MAX_TERMS: Final = 80
_WINDOW_WORDS: Final = 30
_FILTER: Final = re.compile(
    r"(?<!\S)(?:role:(?:user|assistant|tool|system)|turn:\d{1,7}|(?:after|before):\d{4}-\d\d-\d\d)(?!\S)"
)
_MONTHS: Final = "january february march april may june july august september october november december".split()  # noqa: SIM905
_WEEKDAYS: Final = "monday tuesday wednesday thursday friday saturday sunday".split()  # noqa: SIM905
_ISO_DATE: Final = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_DAY: Final = re.compile(rf"\b(?:last|on|this)\s+({'|'.join(_WEEKDAYS)})\b", re.IGNORECASE)
_MONTH: Final = re.compile(rf"\b(?:in|last|since|of)\s+({'|'.join(_MONTHS)})\b", re.IGNORECASE)
# The words, and the first and last day that they mean, counted back from today.
_RELATIVE: Final = (
    (re.compile(r"\btoday\b", re.IGNORECASE), 0, 0),
    (re.compile(r"\byesterday\b", re.IGNORECASE), 1, 1),
    (re.compile(r"\blast week\b", re.IGNORECASE), 13, 5),
    (re.compile(r"\blast month\b", re.IGNORECASE), 60, 25),
)
_SAID: Final = "say|said|tell|ask|want|decide|mention|write|request"
_SPEAKERS: Final = {
    "user": re.compile(rf"\b(?:did|do|have|had) (?:i|we) (?:{_SAID})\w*", re.IGNORECASE),
    "assistant": re.compile(r"\b(?:did|have|had) (?:you|the (?:agent|assistant|model)) \w+", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class Query:
    """A question."""

    terms: Mapping[Term, Collection[int]]
    """The terms, each with the numbers of the windows that have it. Words of a long query that stand together are a
    better sign than the same words spread over all of it."""
    text: str
    filters: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Query:
        text = text[:_MAX_CHARS]
        filters = [(match[0].partition(":")[0], match[0].partition(":")[2]) for match in _FILTER.finditer(text)]
        text = _FILTER.sub(" ", text)
        terms = parse_terms(text)
        if len(terms) > _MAX_TERMS:
            # Of a pasted log, the longest words count. Names are among them, wherever they stand.
            longest = set(sorted(terms, key=_length, reverse=True)[:_MAX_TERMS])
            terms = {term: places for term, places in terms.items() if term in longest}
        windows = {term: {n for p in places for n in _windows(p)} for term, places in terms.items()}
        return cls(windows, text, tuple(filters))

    def allows(self, source: Source) -> bool:
        """Return True if a source is within the limits of the question."""
        if not self.filters:
            return True
        day = (source.time or "")[:10]
        values = {"role": source.role, "turn": str(source.turn)}
        for name, value in self.filters:
            is_day = name in ("after", "before")
            if (is_day and not (value <= day if name == "after" else day <= value)) or value != values.get(name, value):
                return False
        return bool(day) or not any(name == "before" for name, _ in self.filters)

    @property
    def kind(self) -> Literal["question", "text"]:
        """A question of a person has few words. A longer text is a step, an error message or a part of a file."""
        return "text" if any(places != {0} for places in self.terms.values()) else "question"

    def speaker(self) -> str:
        """Return the role that the question asks about, or an empty text."""
        return next((role for role, pattern in _SPEAKERS.items() if pattern.search(self.text)), "")

    def days(self, newest: str) -> tuple[str, str] | None:
        """Return the first and last day that the question names, relative to the newest message, in ISO 8601."""
        try:
            today = date.fromisoformat(newest[:10])
            return _days(self.text, today)
        except ValueError:
            return None


def _days(text: str, today: date) -> tuple[str, str] | None:
    if iso := _ISO_DATE.search(text):
        return iso.group(), iso.group()
    for pattern, first, last in _RELATIVE:
        if pattern.search(text):
            return str(today - timedelta(first)), str(today - timedelta(last))
    if day := _DAY.search(text):
        back = (today.weekday() - _WEEKDAYS.index(day[1].lower())) % 7 or 7
        return str(today - timedelta(back)), str(today - timedelta(back))
    if month := _MONTH.search(text):
        number = _MONTHS.index(month[1].lower()) + 1
        year = today.year - (number > today.month)
        return f"{year}-{number:02}-01", f"{year}-{number:02}-31"
    return None


def _windows(place: int) -> tuple[int, ...]:
    """Return the windows with a word. Each window shares half of its words with the next one."""
    half = place // (_WINDOW_WORDS // 2)
    return (half, half - 1) if half else (0,)


def _length(term: Term) -> int:
    return len(term.exact) or max(len(forms[0]) for forms in term.words)
