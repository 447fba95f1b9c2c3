"""Score one compacted prompt against its case: what the future needed and can still be found, verbatim.

The measures are those of research/quality.md; each figure is between 0 and 1, higher is better.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from compact.summarizers.extraction.entities import TYPE_WEIGHTS, find_entities

from tests.bench.quality.cases import Case, message_text, spoken_text

_WORD = re.compile(r"[a-z0-9_]{3,}")
_STOP_WORDS = "the and for that this with are was you your not but have has from will can all any its it's they let"
_STOP = frozenset(_STOP_WORDS.split())
_KEY_NAMES = "path url email uuid error ticket code money date file hex version branch"
_KEY_TYPES = frozenset(_KEY_NAMES.split())


@dataclass
class Score:
    """Sums of weights found and wanted, by measure."""

    found: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    wanted: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, measure: str, found: float, wanted: float) -> None:
        self.found[measure] += found
        self.wanted[measure] += wanted

    def ratio(self, measure: str) -> float:
        return self.found[measure] / self.wanted[measure] if self.wanted[measure] else 1.0


def places(key: str, text: str) -> list[int]:
    """Where a key stands in a lower-case text as a whole word."""
    found = []
    at = text.find(key)
    while at >= 0:
        end = at + len(key)
        before = text[at - 1] if at else " "
        after = text[end] if end < len(text) else " "
        if not (before.isalnum() and key[0].isalnum()) and not (after.isalnum() and key[-1].isalnum()):
            found.append(at)
        at = text.find(key, at + 1)
    return found


def is_grounded(key: str, near: frozenset[str], text: str, at: list[int], *, radius: int = 80) -> bool:
    """Whether the key stands near at least three (or half) of the words it stood near in its source."""
    needed = min(3, max(1, len(near) // 2))
    if not near:
        return bool(at)
    for start in at:
        window = text[max(0, start - radius) : start] + " " + text[start + len(key) : start + len(key) + radius]
        if len(near.intersection(_WORD.findall(window))) >= needed:
            return True
    return False


class Words:
    """The words of a text with their places, to look for most of a sentence within one window."""

    def __init__(self, text: str) -> None:
        self.places: dict[str, list[int]] = defaultdict(list)
        for index, word in enumerate(_WORD.findall(text)):
            self.places[word].append(index)

    def holds(self, sentence: str, *, share: float = 0.7) -> bool:
        words = {word for word in _WORD.findall(sentence.lower()) if word not in _STOP}
        if not words:
            return True
        needed = max(1, round(len(words) * share))
        hits = sorted((index, word) for word in words for index in self.places.get(word, ()))
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
    """Every copy-only fact that somebody said or passed to a tool, weighted by sort; used later or not."""
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
    """How many of the real later calls could still be made: all that was known of their arguments is still findable.

    What the environment supplied between the cut and the call counts as known again.
    """
    made = 0
    seen = text
    calls = case.later_calls
    for message in case.session["messages"][case.cut : case.end]:
        for call in message.get("tool_calls") or ():
            if keys := calls.get(call["id"]):
                made += all(key in seen for key in keys)
        seen += "\n" + message_text(message).lower()
    return made, len(calls)


def problems(case: Case, messages: list[dict[str, Any]], count: Callable[[str], int]) -> list[str]:
    """What a provider or a user would object to; an invalid prompt counts against its system."""
    history = case.history
    found = []
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                found.append("orphan result")
            open_calls.discard(message.get("tool_call_id", ""))
        else:
            if open_calls:
                found.append("unanswered call")
            open_calls = {call["id"] for call in message.get("tool_calls") or ()}
    if open_calls and history[-1]["role"] == "tool":
        found.append("unanswered call")
    known = {id(message): index for index, message in enumerate(history)}
    places = [known[id(message)] for message in messages if id(message) in known]
    places = places or [history.index(message) for message in messages if message in history]
    if places != sorted(places):
        found.append("order")
    if history[0]["role"] == "system" and messages[0].get("content") != history[0]["content"]:
        found.append("system prompt")
    if messages[-1].get("content") != history[-1].get("content"):
        found.append("newest message")
    if sum(count(message_text(message)) + 4 for message in messages) > case.budget:
        found.append("over budget")
    return found


def score(case: Case, messages: list[dict[str, Any]]) -> Score:
    """Everything measured about one compacted prompt."""
    result = Score()
    text = "\n".join(message_text(message) for message in messages).lower()
    for fact in case.facts:
        at = places(fact.key, text)
        result.add("FUR", fact.weight * bool(at), fact.weight)
        if fact.long_range:
            result.add("FUR-LR", fact.weight * bool(at), fact.weight)
        grounded = bool(at) and is_grounded(fact.key, fact.near, text, at)
        result.add("GFUR", fact.weight * grounded, fact.weight)
    keys = case._cache.setdefault("keys", None) or key_facts(case.history)
    case._cache["keys"] = keys
    result.add("KEY", sum(weight for key, weight in keys.items() if key in text), sum(keys.values()))
    result.add("replay", *replayed_calls(case, text))
    words = Words(text)
    for measure, sentences in (
        ("constraints", dict.fromkeys(case.constraints)),
        ("decisions", case.decisions),
        ("open items", case.open_items),
    ):
        result.add(measure, sum(words.holds(sentence) for sentence in sentences), len(sentences))
    return result
