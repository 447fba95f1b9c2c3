"""Say what kind of line a line is, by its words and by who wrote it.

Rules in English, written as lists of phrases so that they can be read and argued about, and the plainest words of
other languages (`phrases`). All patterns are for text in lower case: matching without regard to case costs several
times more.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from typing import Final

from compact.summarizers.extraction.blocks import Kind
from compact.summarizers.extraction.multilingual_phrases import (
    DECISION_SIGNS,
    DECISION_WORDS,
    OPEN_SIGNS,
    OPEN_WORDS,
    STANDING_SIGNS,
    STANDING_WORDS,
)


class _Phrases:
    """Finds any of the phrases, parted by commas, as whole words, or one of the signs anywhere."""

    def __init__(self, *groups: str, signs: str = "") -> None:
        by_letter: dict[str, list[str]] = {}
        for phrase in map(str.strip, ",".join(groups).split(",")):
            by_letter.setdefault(phrase[0], []).append(phrase[1:])
        # Parted by their first letters: each phrase on its own would be tried at every word.
        words = "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in by_letter.items())
        self._words = re.compile(rf"\b(?=[{''.join(by_letter)}])(?:{words})\b")
        self._signs = re.compile(signs) if signs else None

    def stand_in(self, lowered: str) -> bool:
        if self._words.search(lowered):
            return True
        # All signs are of scripts without spaces.
        return self._signs is not None and not lowered.isascii() and self._signs.search(lowered) is not None


_STANDING_PHRASES: Final = (
    "must, never, always, only, don'?t, do not, should(?:n'?t| not), shall, cannot, can'?t, won'?t, avoid, forbidden",
    "prefer(?:s|red)?, at most, at least, no (?:more|less|later|earlier) than, without, make sure, ensure, required?",
    r"not allowed, budget, deadline, exactly, under [$€£]?\d, up to [$€£]?\d, within \d, maximum, minimum, instead of",
    *STANDING_WORDS,
)
# An instruction that holds until it is withdrawn. These go into a summary before anything competes.
_STANDING: Final = _Phrases(*_STANDING_PHRASES, signs=STANDING_SIGNS)
# The wider sort: a wish, a preference, a request about how.
_CONSTRAINT: Final = _Phrases(
    *_STANDING_PHRASES,
    "should, requires?, requirement, preference, instead, rather, needs? to, has to, have to, keep, limit, let'?s",
    "please, does not, doesn'?t, i want, i need, i'?d like, want, would like, use, no need, not more, ok(?:ay)? with",
    signs=STANDING_SIGNS,
)
# The first of two patterns holds wherever it stands; the second not in a question, nor in the announcement of a step
# that is taken at once ("Now I need to look at the tests").
_FIRM_DECISIONS: Final = (
    "because, root cause, decid(?:e|ed|ing), decision, going with, go with, went with, instead of, rather than",
    "chose, chosen, conclu(?:de|sion), turns out, caused by, due to, therefore, settled on, opt(?:ed)? for, agreed",
    "the (?:issue|problem|bug|cause|fix|reason|solution|approach) (?:is|was), the best (?:way|option|approach)",
    *DECISION_WORDS,
)
_LOOSE_DECISIONS: Final = (
    "choose, so that, this means, since, confirmed, approved, i'll use, we'll use, switch(?:ed|ing) to"
)
_DECISION: Final = (_Phrases(*_FIRM_DECISIONS, signs=DECISION_SIGNS), _Phrases(_LOOSE_DECISIONS))
_FIRM_OPEN_ITEMS: Final = (
    "todo, fixme, next steps?, remaining, still (?:need|have|to|missing|fails?|failing), not yet, left to do",
    "pending, blocked, blocker, follow[- ]?ups?, unresolved, outstanding, must still, yet to, open question",
    "wip, waiting (?:for|on), in progress",
    *OPEN_WORDS,
)
_LOOSE_OPEN_ITEMS: Final = "needs? to, to do, later, will (?:need|have to), should (?:also|now)"
_OPEN_ITEM: Final = (_Phrases(*_FIRM_OPEN_ITEMS, signs=OPEN_SIGNS), _Phrases(_LOOSE_OPEN_ITEMS))
_EMPTY_BOX: Final = "[ ]"  # of a list in Markdown, as firm as a word
_NOTED: Final = re.compile(r"\b(?:TODO|FIXME)\b")  # in code
# Looked for in every line of tool output: no word boundary in front, so that each alternative begins with a letter.
_ERROR: Final = re.compile(
    r"error|exception|fail(?:ed|s|ure|ing)?\b|traceback|fatal|panic|denied|not found|no such|invalid|undefined"
    r"|unable to|cannot|refused|timed? ?out|abort(?:ed)?\b|exit (?:code|status) [1-9]|segfault|unexpected|mismatch"
    r"|conflict"
)
# Most lines say none of these: one look tells.
_TELLING: Final = _Phrases(
    *_FIRM_DECISIONS,
    _LOOSE_DECISIONS,
    *_FIRM_OPEN_ITEMS,
    _LOOSE_OPEN_ITEMS,
    signs=f"{DECISION_SIGNS}|{OPEN_SIGNS}",
)

_COURTESY: Final = re.compile(r"\b(?:let me know|feel free|would you like me|please (?:provide|confirm|tell|share))\b")
_PASSING: Final = re.compile(
    r"\?$|\b(?:would you like|could you)\b"
    r"|^(?:(?:now|next|first|then|ok(?:ay)?|good|great|perfect)\b[,.!:]? )*"
    r"(?:let me|let's|i'll|i(?: also)? need to|i should)\b"
)
_ASCII_LETTERS: Final = string.ascii_letters.encode()
_REMEMBERED: Final = 16_384  # the guard asks the same of the lines the summariser has just read
# What tools returned has no bonus, so whether it tells of an error can wait until it is chosen.
_BY_KIND: Final = {
    "command": "commands",
    "edit": "files",
    "call": "tool_outcomes",
    "code": "outputs",
    "output": "outputs",
}


def is_instruction(text: str) -> bool:
    """Whether a user's line is a standing instruction in words, and not a line of a log that was pasted."""
    return _is_constraint(text) and _is_standing(text)


@lru_cache(maxsize=_REMEMBERED)
def _is_constraint(text: str) -> bool:
    return _CONSTRAINT.stand_in(text.lower())


@lru_cache(maxsize=_REMEMBERED)
def _is_standing(text: str) -> bool:
    return _STANDING.stand_in(text.lower()) and _is_sentence(text)


def _is_sentence(text: str) -> bool:
    spaces = text.count(" ")
    return (spaces >= 2 or not text.isascii()) and spaces + _letters(text) >= 0.75 * len(text)


def _letters(text: str) -> int:
    if text.isascii():
        return len(text) - len(text.encode().translate(None, _ASCII_LETTERS))
    return sum(map(str.isalpha, text))


def is_open_item(text: str) -> bool:
    """Whether the assistant says that something is left to do."""
    return _prose_field(text) == "open_items"


def _says(phrases: tuple[_Phrases, _Phrases], lowered: str) -> bool:
    firm, loose = phrases
    return firm.stand_in(lowered) or (loose.stand_in(lowered) and not _PASSING.search(lowered))


def is_error(text: str) -> bool:
    """Whether a line reports that something went wrong."""
    return _ERROR.search(text.lower()) is not None


def field_of(text: str, kind: Kind, *, is_opening: bool) -> str:
    """The field of the summary a line belongs to; what opens a conversation is its goal."""
    if kind == "user":
        if _is_constraint(text):
            return "constraints"
        if is_opening:
            return "goals"
        return "requests" if _is_sentence(text) else "facts"
    if kind == "prose":
        return _prose_field(text)
    if kind == "code" and _NOTED.search(text):
        return "open_items"
    return _BY_KIND[kind]


@lru_cache(maxsize=_REMEMBERED)
def _prose_field(text: str) -> str:
    lowered = text.lower()
    has_box = _EMPTY_BOX in lowered
    if (has_box or _TELLING.stand_in(lowered)) and not _COURTESY.search(lowered):
        if has_box or _says(_OPEN_ITEM, lowered):
            return "open_items"
        if _says(_DECISION, lowered):
            return "decisions"
    return "errors" if _ERROR.search(lowered) and not lowered.endswith("?") else "facts"
