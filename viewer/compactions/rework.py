"""What a compaction took away and somebody needed again: calls made twice, and questions about what is gone.

Pure, and by rule: a question counts only if it names something that left the prompt and is nowhere in what stayed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewer.compactions.ledger import Entry
from viewer.sessions.checks import Check
from viewer.sessions.spans import SpanRow

_MOST = 20
# Longer ones are reports, in which a question mark asks nobody.
_SENTENCE_CHARS = 600
_SENTENCES = re.compile(r"[^.!?\n]*(?:[.!?](?=\w)[^.!?\n]*)*[?.!\n]?")
_AGAIN = re.compile(
    r"\b(?:remind|repeat|re-?send|re-?share|once more|tell me again|say (?:that|it) again|again\s*\?)"
    r"|\b(?:what|which|where|who|when)\b[^?]{0,60}\bagain\b"
    r"|\b(?:already|just) (?:told|said|gave|sent|shared)\b|\bas I said\b|\bI (?:said|told you)\b"
    r"|\b(?:no longer|don['’]t|do not|can(?:no|['’])t) (?:have|see|recall|remember|find)\b",
    re.I,
)
_WORD = re.compile(r"[^\W_](?:[\w./:@#-]*[^\W_])?")
# Enough to keep a question's own words from being taken for what it is about.
_COMMON = """
about above after again already another because before being below between could doing during earlier every first
found from going great have having hello here into just know last later like look made make many maybe message more
much need next once only other over please previous question quite really remember remind repeat right said same
send sent share should show since some still such sure take tell than thank thanks that their them then there these
they thing things think this those through told under until used using very want wanted well were what when where
which while will with without work would yes your yours
"""
_COMMON_WORDS = frozenset(_COMMON.split())


@dataclass(frozen=True, slots=True)
class Said:
    """Words of a user or an agent, and the span that carried them."""

    span: SpanRow
    speaker: str  # user, agent
    text: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """A tool call from before a compaction that was made again after it."""

    before: SpanRow
    again: SpanRow
    times: int
    arguments: str


@dataclass(frozen=True, slots=True)
class Question:
    """A later sentence that asks for what a message said which had left the prompt."""

    said: Said
    sentence: str
    about: str  # the id of the message
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gone:
    """A text that left the prompt, and the message it stood in."""

    id: str
    text: str


def questions(later: Iterable[Said], gone: Iterable[Gone], still: Iterable[str]) -> list[Question]:
    """Who asked for what is gone: per sentence the message that shares most of what nothing else still says."""
    known = {term for text in still for term in terms(text)}
    lost = [(one.id, terms(one.text) - known) for one in gone]
    found = []
    for said in later:
        # What somebody has said meanwhile is no longer gone: only the first to ask for it is told.
        before, known = known, known | terms(said.text)
        for sentence in asking(said.text):
            mine = terms(sentence) - before
            best = max(lost, key=lambda one: _weight(mine & one[1]), default=None)
            if best is None:
                continue
            shared = mine & best[1]
            if _weight(shared) >= (1 if _AGAIN.search(sentence) else 2):
                found.append(Question(said, sentence, best[0], tuple(sorted(shared))))
                if len(found) == _MOST:
                    return found
    return found


def asking(text: str) -> list[str]:
    """The sentences of a text that ask for something, or complain that it was said before."""
    sentences = (" ".join(part.split()) for part in _SENTENCES.findall(text[:20_000]))
    return [
        one for one in sentences if one and len(one) <= _SENTENCE_CHARS and (one.endswith("?") or _AGAIN.search(one))
    ]


def terms(text: str) -> set[str]:
    """What a text is about: names, numbers and paths, and the longer words that are not everybody's."""
    words = {word.lower() for word in _WORD.findall(text)}
    return {word for word in words if _is_name(word) or (len(word) > 3 and word not in _COMMON_WORDS)}


def _is_name(word: str) -> bool:
    return len(word) > 1 and not word.isalpha()


def _weight(shared: set[str]) -> int:
    """A name says as much as two words."""
    return sum(2 if _is_name(word) else 1 for word in shared)


def gone_texts(entries: Iterable[Entry], texts: Mapping[str, str], lost: Iterable[Mapping[str, Any]]) -> list[Gone]:
    """Messages that left, by their archived texts; and facts that a check found lost, which need no archive."""
    left = [Gone(entry.id, texts[entry.hash]) for entry in entries if not entry.stays and entry.hash in texts]
    for item in lost:
        sources = item.get("source_ids")
        if isinstance(sources, list) and sources:
            left.append(Gone(str(sources[0]), str(item.get("text", ""))))
    return left


def words_of(message: Any) -> str:
    """Everything a stored message says, calls and their arguments included, without the names of its fields."""
    if isinstance(message, str):
        return message
    values = (
        message.items() if isinstance(message, Mapping) else enumerate(message if isinstance(message, list) else ())
    )
    return "\n".join(words_of(value) for key, value in values if key not in {"role", "type", "id"})


def text_of(part: Any, role: str) -> str:
    """The words of one message in whatever shape it was sent; nothing if somebody else said it."""
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping) or part.get("role", role) != role:
        return ""
    content = part.get("content", part.get("text", ""))
    if isinstance(content, list):
        content = "\n".join(str(piece.get("text", "")) for piece in content if isinstance(piece, Mapping))
    return content if isinstance(content, str) else ""


def brought_back(spans: Iterable[SpanRow], check: Check, until: Check | None) -> list[SpanRow]:
    """Content that was put away and fetched again, or asked for in vain, between this compaction and the next."""
    kinds = {"compact.rehydrated", "compact.rehydration_blocked"}
    since, end = check.ended_at or check.started_at, until.started_at if until else None
    return [
        span
        for span in spans
        if span.kind in kinds and since and span.started_at and span.started_at >= since
        if end is None or span.started_at < end
    ][:50]
