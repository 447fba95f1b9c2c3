"""Score a compacted prompt by the facts that the continuation needed and that are still in it, verbatim.

The measures are those of research/quality.md. Each is between 0 and 1, and higher is better.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from compact.reading.entities import TYPE_WEIGHTS, find_entities

from tests.bench.quality.cases import Case, message_text, spoken_text

_WORD = re.compile(r"[a-z0-9_]{3,}")
_STOP_WORDS = "the and for that this with are was you your not but have has from will can all any its it's they let"
_STOP = frozenset(_STOP_WORDS.split())
_KEY_NAMES = "path url email uuid error ticket code money date file hex version branch"
_KEY_TYPES = frozenset(_KEY_NAMES.split())


@dataclass
class Score:
    """The sums of kept and wanted weights per measure."""

    kept: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    wanted: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, measure: str, kept: float, wanted: float) -> None:
        self.kept[measure] += kept
        self.wanted[measure] += wanted

    def ratio(self, measure: str) -> float:
        return self.kept[measure] / self.wanted[measure] if self.wanted[measure] else 1.0


def positions(key: str, text: str) -> list[int]:
    """Return the positions of a key as a whole word in a lower-case text."""
    matches = []
    at = text.find(key)
    while at >= 0:
        end = at + len(key)
        before = text[at - 1] if at else " "
        after = text[end] if end < len(text) else " "
        if not (before.isalnum() and key[0].isalnum()) and not (after.isalnum() and key[-1].isalnum()):
            matches.append(at)
        at = text.find(key, at + 1)
    return matches


def is_in_context(key: str, near: frozenset[str], text: str, at: list[int], *, radius: int = 80) -> bool:
    """True if the key is close to at least three, or half, of the words it was close to in the history."""
    needed = min(3, max(1, len(near) // 2))
    if not near:
        return bool(at)
    for start in at:
        window = text[max(0, start - radius) : start] + " " + text[start + len(key) : start + len(key) + radius]
        if len(near.intersection(_WORD.findall(window))) >= needed:
            return True
    return False


class WordIndex:
    """The positions of the words of a text, to find most of a sentence within one window."""

    def __init__(self, text: str) -> None:
        self.positions: dict[str, list[int]] = defaultdict(list)
        for index, word in enumerate(_WORD.findall(text)):
            self.positions[word].append(index)

    def contains(self, sentence: str, *, share: float = 0.7) -> bool:
        words = {word for word in _WORD.findall(sentence.lower()) if word not in _STOP}
        if not words:
            return True
        needed = max(1, round(len(words) * share))
        hits = sorted((index, word) for word in words for index in self.positions.get(word, ()))
        window = len(words) * 2 + 6
        counts: dict[str, int] = defaultdict(int)
        first = 0
        distinct = 0
        for index, word in hits:
            counts[word] += 1
            distinct += counts[word] == 1
            while index - hits[first][0] > window:
                counts[hits[first][1]] -= 1
                distinct -= counts[hits[first][1]] == 0
                first += 1
            if distinct >= needed:
                return True
        return False


def key_facts(history: list[dict[str, Any]]) -> dict[str, float]:
    """Return the weight of every fact of the user and the assistant that can only be copied, used later or not."""
    facts = {}
    for message in history:
        if message["role"] not in ("user", "assistant"):
            continue
        for line in set(spoken_text(message).split("\n")):
            for key, kind in find_entities(line):
                if kind in _KEY_TYPES:
                    facts[key] = TYPE_WEIGHTS[kind]
    return facts


def replayed_calls(case: Case, text: str) -> tuple[int, int]:
    """Return the number of later calls whose known arguments are still in the text, and the number of all calls.

    Arguments that appear in messages between the cut and the call count as known.
    """
    possible = 0
    seen = text
    calls = case.later_calls
    for message in case.session["messages"][case.cut : case.end]:
        for call in message.get("tool_calls") or ():
            if keys := calls.get(call["id"]):
                possible += all(key in seen for key in keys)
        seen += "\n" + message_text(message).lower()
    return possible, len(calls)


def problems(case: Case, messages: list[dict[str, Any]], count: Callable[[str], int]) -> list[str]:
    """Return the reasons why a provider or a user would reject a prompt."""
    history = case.history
    reasons = []
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                reasons.append("orphan result")
            open_calls.discard(message.get("tool_call_id", ""))
        else:
            if open_calls:
                reasons.append("unanswered call")
            open_calls = {call["id"] for call in message.get("tool_calls") or ()}
    if open_calls and history[-1]["role"] == "tool":
        reasons.append("unanswered call")
    known = {id(message): index for index, message in enumerate(history)}
    order = [known[id(message)] for message in messages if id(message) in known]
    order = order or [history.index(message) for message in messages if message in history]
    if order != sorted(order):
        reasons.append("order")
    if history[0]["role"] == "system" and messages[0].get("content") != history[0]["content"]:
        reasons.append("system prompt")
    if messages[-1].get("content") != history[-1].get("content"):
        reasons.append("newest message")
    if sum(count(message_text(message)) + 4 for message in messages) > case.budget:
        reasons.append("over budget")
    return reasons


def score(case: Case, messages: list[dict[str, Any]]) -> Score:
    """Return all measures of a compacted prompt."""
    result = Score()
    text = "\n".join(message_text(message) for message in messages).lower()
    for fact in case.facts:
        at = positions(fact.key, text)
        result.add("FUR", fact.weight * bool(at), fact.weight)
        if fact.long_range:
            result.add("FUR-LR", fact.weight * bool(at), fact.weight)
        in_context = bool(at) and is_in_context(fact.key, fact.near, text, at)
        result.add("GFUR", fact.weight * in_context, fact.weight)
    keys = case._cache.setdefault("keys", None) or key_facts(case.history)
    case._cache["keys"] = keys
    result.add("KEY", sum(weight for key, weight in keys.items() if key in text), sum(keys.values()))
    result.add("replay", *replayed_calls(case, text))
    words = WordIndex(text)
    for measure, sentences in (
        ("constraints", dict.fromkeys(case.constraints)),
        ("decisions", case.decisions),
        ("open items", case.open_items),
    ):
        result.add(measure, sum(words.contains(sentence) for sentence in sentences), len(sentences))
    return result
