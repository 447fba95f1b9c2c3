"""Work that had to be repeated because a compaction removed content: repeated tool calls and questions.

Pure and rule-based. A question counts only if it names something that left the prompt and is nowhere in what
remained.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewer.compactions.ledger import Entry
from viewer.kinds import REHYDRATED, REHYDRATION_BLOCKED
from viewer.sessions.checks import Check
from viewer.sessions.spans import SpanRow

_MAX_QUESTIONS = 20
_MAX_REHYDRATIONS = 50
_MAX_TEXT_CHARS = 20_000
# Longer sentences are usually reports that only contain a question mark.
_MAX_SENTENCE_CHARS = 600
_SENTENCES = re.compile(r"[^.!?\n]*(?:[.!?](?=\w)[^.!?\n]*)*[?.!\n]?")
_REMINDER = re.compile(
    r"\b(?:remind|repeat|re-?send|re-?share|once more|tell me again|say (?:that|it) again|again\s*\?)"  # words:ignore
    r"|\b(?:what|which|where|who|when)\b[^?]{0,60}\bagain\b"
    r"|\b(?:already|just) (?:told|said|gave|sent|shared)\b|\bas I said\b|\bI (?:said|told you)\b"  # words:ignore
    r"|\b(?:no longer|don['’]t|do not|can(?:no|['’])t) (?:have|see|recall|remember|find)\b",
    re.I,
)
_WORD = re.compile(r"[^\W_](?:[\w./:@#-]*[^\W_])?")
# Common words say nothing about the subject of a question.
_COMMON = (
    "about above after again already another because before being below between could doing during "
    "earlier every first found from going great have having hello here into just know last later "
    "like look made make many maybe message more much need next once only other over please previous "
    "question quite really remember remind repeat right said same send sent share should show since "
    "some still such sure take tell than thank thanks that their them then there these they thing "
    "things think this those through told under until used using very want wanted well were what "  # words:ignore
    "when where which while will with without work would yes your yours "
)
_COMMON_WORDS = frozenset(_COMMON.split())


@dataclass(frozen=True, slots=True)
class Utterance:
    """A text of a user or an agent, and the span that contains it."""

    span: SpanRow
    speaker: str  # user, agent
    text: str


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """A tool call before a compaction that was repeated after it."""

    before: SpanRow
    again: SpanRow
    times: int
    arguments: str  # as `(path="a.py")`, and empty if the reader may not see them


@dataclass(frozen=True, slots=True)
class Question:
    """A sentence that asks for content that had left the prompt."""

    utterance: Utterance
    sentence: str
    about: str  # the id of the message that had the content
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemovedText:
    """A text that left the prompt, and the id of its message."""

    id: str
    text: str


def find_questions(
    utterances: Iterable[Utterance], removed: Iterable[RemovedText], remaining: Iterable[str]
) -> list[Question]:
    """Return the questions about removed texts, each with the message that shares most of its terms."""
    known = {term for text in remaining for term in terms(text)}
    removed_terms = [(text.id, terms(text.text) - known) for text in removed]
    questions = []
    for utterance in utterances:
        # The answer puts the content back into the prompt, so only the first question counts.
        before, known = known, known | terms(utterance.text)
        for sentence in requests(utterance.text):
            asked = terms(sentence) - before
            best = max(removed_terms, key=lambda item: _weight(asked & item[1]), default=None)
            if best is None:
                continue
            shared = asked & best[1]
            if _weight(shared) >= (1 if _REMINDER.search(sentence) else 2):
                questions.append(Question(utterance, sentence, best[0], tuple(sorted(shared))))
                if len(questions) == _MAX_QUESTIONS:
                    return questions
    return questions


def requests(text: str) -> list[str]:
    """Return the sentences that ask for something, or say that it was said before."""
    sentences = (" ".join(part.split()) for part in _SENTENCES.findall(text[:_MAX_TEXT_CHARS]))
    return [
        sentence
        for sentence in sentences
        if sentence and len(sentence) <= _MAX_SENTENCE_CHARS and (sentence.endswith("?") or _REMINDER.search(sentence))
    ]


def terms(text: str) -> set[str]:
    """Return the names, numbers, paths and longer uncommon words of a text."""
    words = {word.lower() for word in _WORD.findall(text)}
    return {word for word in words if _is_name(word) or (len(word) > 3 and word not in _COMMON_WORDS)}


def _is_name(word: str) -> bool:
    return len(word) > 1 and not word.isalpha()


def _weight(terms: set[str]) -> int:
    """Count names twice."""
    return sum(2 if _is_name(word) else 1 for word in terms)


def removed_texts(
    entries: Iterable[Entry], texts: Mapping[str, str], lost_facts: Iterable[Mapping[str, Any]]
) -> list[RemovedText]:
    """Return the archived texts of removed messages, and lost facts, whose text needs no archive."""
    removed = [RemovedText(entry.id, texts[entry.hash]) for entry in entries if not entry.stays and entry.hash in texts]
    for fact in lost_facts:
        sources = fact.get("source_ids")
        if isinstance(sources, list) and sources:
            removed.append(RemovedText(str(sources[0]), str(fact.get("text", ""))))
    return removed


def message_text(message: Any) -> str:
    """Return all text of a stored message, including tool calls and their arguments, without field names."""
    if isinstance(message, str):
        return message
    if isinstance(message, Mapping):
        return "\n".join(message_text(value) for key, value in message.items() if key not in {"role", "type", "id"})
    return "\n".join(message_text(item) for item in message) if isinstance(message, list) else ""


def text_of_role(message: Any, role: str) -> str:
    """Return the text of a message in any format, or nothing if another role sent it."""
    if isinstance(message, str):
        return message
    if not isinstance(message, Mapping) or message.get("role", role) != role:
        return ""
    content = message.get("content", message.get("text", ""))
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def rehydrations(spans: Iterable[SpanRow], check: Check, next_compaction: Check | None) -> list[SpanRow]:
    """Return requests for stored content between this compaction and the next, successful or not."""
    start, end = check.ended_at or check.started_at, next_compaction.started_at if next_compaction else None
    return [
        span
        for span in spans
        if span.kind in {REHYDRATED, REHYDRATION_BLOCKED} and start and span.started_at and span.started_at >= start
        if end is None or span.started_at < end
    ][:_MAX_REHYDRATIONS]
