"""Classify lines by their words and by who wrote them.

The rules are lists of English phrases that are easy to review, plus the most common words of other languages
(`multilingual_phrases`). All patterns expect lower-case text, because case-insensitive matching is several times
slower.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from typing import Final

from compact.reading.blocks import LineKind
from compact.reading.lines.multilingual_phrases import (
    DECISION_SUBSTRINGS,
    DECISION_WORDS,
    OPEN_ITEM_SUBSTRINGS,
    OPEN_ITEM_WORDS,
    STANDING_SUBSTRINGS,
    STANDING_WORDS,
)
from compact.reading.state.requests import is_bare_answer


class _PhraseMatcher:
    """Matches any of the comma-separated phrases as whole words, or any of the substrings anywhere."""

    def __init__(self, *groups: str, substrings: str = "") -> None:
        by_letter: dict[str, list[str]] = {}
        for phrase in map(str.strip, ",".join(groups).split(",")):
            by_letter.setdefault(phrase[0], []).append(phrase[1:])
        # Group phrases by first letter. Otherwise the engine tries every phrase at every word.
        words = "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in by_letter.items())
        self._words = re.compile(rf"\b(?=[{''.join(by_letter)}])(?:{words})\b")
        self._substrings = re.compile(substrings) if substrings else None

    def matches(self, lowered: str) -> bool:
        if self._words.search(lowered):
            return True
        # Substrings are only used for scripts without spaces, which are never ASCII.
        return self._substrings is not None and not lowered.isascii() and self._substrings.search(lowered) is not None


_STANDING_PHRASES: Final = (
    "must, never, always, only, don'?t, do not, should(?:n'?t| not), shall",  # words:ignore
    "cannot, can'?t, won'?t, avoid, forbidden, keep",
    "prefer(?:s|red)?, at most, at least, no (?:more|less|later|earlier) than, without, make sure, ensure, required?",
    r"not allowed, budget, deadline, exactly, under [$€£]?\d, up to [$€£]?\d, within \d, maximum, minimum, instead of",
    *STANDING_WORDS,
)
# An instruction that applies until it is withdrawn. Standing instructions are selected before all other lines.
_STANDING: Final = _PhraseMatcher(*_STANDING_PHRASES, substrings=STANDING_SUBSTRINGS)
# Also wishes, preferences and requests about how to do something.
_CONSTRAINT: Final = _PhraseMatcher(
    *_STANDING_PHRASES,
    "should, requires?, requirement, preference, instead, rather, needs? to, ha(?:s|ve) to(?! do with), limit",
    "let'?s, i want, i need, i'?d like",
    "want, would like, use, no need, not more, ok(?:ay)? with",
    substrings=STANDING_SUBSTRINGS,
)
# Firm phrases always count. Loose ones do not count in a question or in the announcement of an immediate step ("Now I
# need to look at the tests").
_FIRM_DECISIONS: Final = (
    "because, root cause, decided, decision, going with, go with, went with, instead of, rather than",
    "chose, chosen, conclu(?:de|sion), turns out, caused by, due to, therefore, settled on, opt(?:ed)? for, agreed",
    "the (?:issue|problem|bug|cause|fix|reason|solution|approach) (?:is|was), the best (?:way|option|approach)",
    "i(?:'ll| will) (?:use|keep|go with|stick with), we(?:'ll| will) (?:use|keep|go with)",
    *DECISION_WORDS,
)
_LOOSE_DECISIONS: Final = (
    "choose, decid(?:e|ing), so that, this means, confirmed, approved, switch(?:ed|ing) to, fixed, resolved",
    # Not "since my last update".
    r"since(?! then| (?:the|my|our|your|its|it was|you|i) (?:last|latest|previous|start|beginning|crash)\b)",
)
_DECISION: Final = (
    _PhraseMatcher(*_FIRM_DECISIONS, substrings=DECISION_SUBSTRINGS),
    _PhraseMatcher(*_LOOSE_DECISIONS),
)
# Choices of the user. Programs and pasted text rarely speak this way.
_USER_DECISION: Final = re.compile(
    r"\b(?:let'?s (?:go with|use|keep|do|stick|take(?! an?\b)|switch|choose|try)|(?<!\.)go(?:ing)? with"
    r"|i(?:'ll| will) (?:take|go with|use)"
    r"|we(?:'ll| will) (?:use|go with|keep)"
    r"|(?<!know )(?<!if )i (?:choose|chose|prefer|approve|agree|decided)|we (?:decided|agreed|chose)"
    r"|i'?ve decided|decided to|my decision|proceed with|go ahead (?:with|and)|settle(?:d)? on|opt(?:ed)? for"
    r"|i'?d (?:rather|prefer))\b"
    # "No settings loaded" is no answer, and "Sure, my user ID is" gives a fact.
    r"|^(?:(?:yes|ok|okay|sure|agreed|approved)[,.!:;]?|no[,.!:;]) (?!(?:my|here|it'?s|this is) )\w+ \w+"
)
_RULE: Final = re.compile(r"\b(?:never|always|must|only|do not|don'?t)\b")
_QUESTION: Final = re.compile(
    r"^(?:(?:/ask|so|and|but|ok(?:ay)?|hm+|question:?|@\w+),? )?"
    r"(?:(?:what|why|how|who|where|when|which)(?:'s|'re|'d)?|is|are|was|were|does|do|did|will) [^.]*\?$"
    r"|^why (?:[^.?!]|\.\w)*$"
)
# Output, code and messages of programs that a user's turn contains. They are not instructions.
_PROGRAM_LINE: Final = re.compile(
    r"^(?:traceback \(|file \"[^\"]+\", line \d|raise \w+|\w+(?:error|exception): )"
    r"|^(?:\S*/)?[\w.-]+\.\w{1,5}:\d+|^/\S+: |^\d+ ?[│█|→]"
    r"|^(?:assert|return|raise|yield|def|class) [^ ]*[(\[=.].*[^.!]$|^[\w.]+\(.*[(),;\"'].?$|^e {2,}\S"
    r"|^(?:error|fatal|info|debug): |\w(?:warning|error|exception): |\\n| \.\.\. (?:ok|skipped|fail|error)\b"
    r"|^(?:removed|now at|head is(?: now at)?):? +[0-9a-f]{7,40} |^unexpected error: "
    r"|^\$ *\d+\.\d|^you can use /\w+ |^use /\w+ |^only \d+ reflections|^#* ?searchreplacenoexactmatch"
    r"|^model \S+: unknown |^no files matched "
)
# Some agents report their commits in the user's turn. The subject of a commit is the shortest account of a change.
_COMMIT: Final = re.compile(r"Commit [0-9a-f]{7,40} ")
# What the user cannot remember or find is not an instruction.
_NOT_KNOWN: Final = re.compile(
    r"\bi(?:'m| am)?(?: \w+)? (?:don'?t|do not|can'?t|cannot|didn'?t)(?: \w+)? "
    r"(?:remember|recall|know|see|find|understand|have (?:it|that|the|my|access)|believe|think)\b"
)
_FIRM_OPEN_ITEMS: Final = (
    "todo, fixme, next steps?, remaining, still (?:need|have|to|missing|fails?|failing), not yet, left to do",
    "is pending, are pending, still pending, is blocked, blocker, follow[- ]?ups?, unresolved, outstanding",
    "must still, yet to, open question, wip, i'm waiting (?:for|on), is in progress, are in progress, work in progress",
    *OPEN_ITEM_WORDS,
)
# Not "we need to change this file", which announces a change, nor "this should now work", which reports one.
_LOOSE_OPEN_ITEMS: Final = (
    r"need(?:(?<=^need)|(?<=[.-] need)) to, needs to be, you need to, you(?:'ll| will) need to, to do, should also",
    "do (?:this|that|it) later, fix (?:this|that|it) later, revisit",
)
_OPEN_ITEM: Final = (
    _PhraseMatcher(*_FIRM_OPEN_ITEMS, substrings=OPEN_ITEM_SUBSTRINGS),
    _PhraseMatcher(*_LOOSE_OPEN_ITEMS),
)
_EMPTY_CHECKBOX: Final = "[ ]"  # counts like a firm phrase
_CODE_TODO: Final = re.compile(r"\b(?:TODO|FIXME)\b")
# Runs on every line of tool output. Without a leading word boundary each alternative starts with a literal, which is
# faster.
_CODE: Final = re.compile(r"[{;]$|:= |\b(?:func|def|return|raise|throw|import)\b|\w\.\w+\(|^\s*(?://|#)")
_ERROR: Final = re.compile(
    r"error|exception|fail(?:ed|s|ure|ing)?\b"  # codespell:ignore ure
    r"|traceback|fatal|panic|denied|not found|no such|invalid|undefined"
    r"|unable to|cannot|refused|timed? ?out|abort(?:ed)?\b|exit (?:code|status) [1-9]|segfault|unexpected|mismatch"
    r"|conflict"
)
# One search that rules out most lines.
_DECISION_OR_OPEN_ITEM: Final = _PhraseMatcher(
    *_FIRM_DECISIONS,
    *_LOOSE_DECISIONS,
    *_FIRM_OPEN_ITEMS,
    *_LOOSE_OPEN_ITEMS,
    substrings=f"{DECISION_SUBSTRINGS}|{OPEN_ITEM_SUBSTRINGS}",
)

_COURTESY: Final = re.compile(r"\b(?:let me know|feel free|would you like me|please (?:provide|confirm|tell|share))\b")
_QUESTION_OR_ANNOUNCEMENT: Final = re.compile(
    r"\?$|\b(?:would you like|could you)\b"
    r"|^(?:(?:now|next|first|then|ok(?:ay)?|good|great|perfect)\b[,.!:]? )*"
    r"(?:let me|let's|i'll|i(?: also)? need to|i should)\b"
)
_ASCII_LETTERS: Final = string.ascii_letters.encode()
_CACHE_SIZE: Final = 16_384  # The retention check classifies the lines that the summarizer has just read.
# Tool output gets no bonus, so whether it reports an error is only checked after it is selected.
_FIELD_BY_KIND: Final = {
    "command": "commands",
    "edit": "tool_outcomes",
    "record": "records",
    "call": "tool_outcomes",
    "code": "outputs",
    "output": "outputs",
}


def is_instruction(text: str) -> bool:
    """True if a user's line is a standing instruction in words, as opposed to a pasted log line."""
    return _user_field(text) == "constraints" and _is_standing(text)


def is_rule(text: str) -> bool:
    """True if a line of the user forbids or demands something."""
    return _RULE.search(text.lower()) is not None


@lru_cache(maxsize=_CACHE_SIZE)
def is_user_decision(text: str) -> bool:
    """True if a user's line states a choice."""
    lowered = text.lower()
    return (
        not lowered.endswith("?")
        and _USER_DECISION.search(lowered) is not None
        and _is_sentence(text)
        and not _PROGRAM_LINE.search(lowered)
    )


def spoken_field(text: str) -> str:
    """Return the field of a line that the user wrote in a short message, or an empty text if it is not a sentence."""
    field = _user_field(text)
    if field == "constraints":
        return "statements" if is_bare_answer(text) and not is_rule(text) else field
    return "statements" if field in ("requests", "questions") and not text.startswith("/") else ""


def is_open_item(text: str) -> bool:
    """True if a line of the assistant says that work remains."""
    return _prose_field(text) == "open_items"


def is_error(text: str) -> bool:
    """True if a line reports an error, as opposed to code that handles one."""
    return _ERROR.search(text.lower()) is not None and not _CODE.search(text)


def summary_field(text: str, kind: LineKind) -> str:
    """Return the summary field that a line belongs to."""
    if kind == "user":
        return _user_field(text)
    if kind == "pasted":
        return _report_field(text)
    if kind == "prose":
        return _prose_field(text)
    if kind == "code" and _CODE_TODO.search(text):
        return "open_items"
    return _FIELD_BY_KIND[kind]


def _report_field(text: str) -> str:
    if _COMMIT.match(text):
        return "milestones"
    return "reports" if _is_standing(text) else "facts"


@lru_cache(maxsize=_CACHE_SIZE)
def _user_field(text: str) -> str:
    lowered = text.lower()
    if _COMMIT.match(text) or _PROGRAM_LINE.search(lowered):
        return _report_field(text)
    if _is_constraint(lowered):
        return "constraints"
    if not _is_sentence(text):
        return "facts"
    return "questions" if text.endswith("?") else "requests"


def _is_constraint(lowered: str) -> bool:
    if not _CONSTRAINT.matches(lowered) or _QUESTION.search(lowered):
        return False
    unknown = _NOT_KNOWN.search(lowered)
    return unknown is None or _CONSTRAINT.matches(lowered[: unknown.start()] + lowered[unknown.end() :])


@lru_cache(maxsize=_CACHE_SIZE)
def _is_standing(text: str) -> bool:
    return _STANDING.matches(text.lower()) and _is_sentence(text)


@lru_cache(maxsize=_CACHE_SIZE)
def _is_sentence(text: str) -> bool:
    spaces = text.count(" ")
    return (spaces >= 2 or not text.isascii()) and spaces + _count_letters(text) >= 0.75 * len(text)


def _count_letters(text: str) -> int:
    if text.isascii():
        return len(text) - len(text.encode().translate(None, _ASCII_LETTERS))
    return sum(map(str.isalpha, text))


@lru_cache(maxsize=_CACHE_SIZE)
def _prose_field(text: str) -> str:
    lowered = text.lower()
    has_checkbox = _EMPTY_CHECKBOX in lowered
    if lowered.startswith("#"):
        return "facts"  # A heading only announces what follows.
    if lowered.startswith("error: "):
        return "errors"  # Its reason is not the reason of a decision.
    if (has_checkbox or _DECISION_OR_OPEN_ITEM.matches(lowered)) and not _COURTESY.search(lowered):
        if has_checkbox or _matches_either(_OPEN_ITEM, lowered):
            return "open_items"
        if _matches_either(_DECISION, lowered):
            return "decisions"
    return "errors" if _ERROR.search(lowered) and not lowered.endswith("?") else "facts"


def _matches_either(phrases: tuple[_PhraseMatcher, _PhraseMatcher], lowered: str) -> bool:
    firm, loose = phrases
    if firm.matches(lowered):
        return True
    # A sentence that ends with a colon, or a row of a table, says little without the lines around it.
    sentences = lowered.rpartition(". ")[0] if lowered.endswith(":") else lowered
    return not lowered.startswith("|") and loose.matches(sentences) and not _QUESTION_OR_ANNOUNCEMENT.search(lowered)
