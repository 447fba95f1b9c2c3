"""Recorded sessions and, for each cut through a session, the facts that its real continuation used again.

Reads the shared data set from `QUALITY_DATA`. It is test data and not part of the product.
"""

from __future__ import annotations

import json
import lzma
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any


def _data_folder() -> Path:
    """Return `QUALITY_DATA`, or else `shared/data` next to one of the parent folders."""
    if named := os.environ.get("QUALITY_DATA"):
        return Path(named)
    candidates = [parent / "shared" / "data" for parent in Path(__file__).resolve().parents]
    return next((folder for folder in candidates if folder.is_dir()), Path("shared/data"))


DATA = _data_folder()
FILES = ("aider", "entire", "openhands", "sweagent", "tau", "intercode", "pi", "quirks")

_DECISION = re.compile(
    r"\b(because|root cause|decided|going with|go with|instead of|rather than|chose|turns out|"
    r"the (?:issue|problem|bug|fix|cause) (?:is|was)|due to|therefore)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(todo|next steps?|remaining|still need|not yet|pending|blocked|follow[- ]?up|left to do)\b|\[ \]", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[a-z0-9_]{3,}")


def load_sessions(*names: str) -> dict[str, dict[str, Any]]:
    """Return the sessions of the named files, or of all files, by id."""
    sessions = {}
    for name in names or FILES:
        with lzma.open(DATA / "transcripts" / f"{name}.jsonl.xz", "rt") as lines:
            for line in lines:
                session = json.loads(line)
                sessions[session["id"]] = session | {"file": name}
    return sessions


@dataclass(frozen=True)
class Fact:
    """An entity of the history that the continuation used again."""

    key: str
    type: str
    weight: float
    long_range: bool
    near: frozenset[str]  # words near its mentions in the history


@dataclass
class Case:
    """A history, the token budget for it, and the facts that the continuation needs."""

    session: dict[str, Any]
    budget: int
    ratio: int
    cut: int
    end: int
    raw_facts: list[list[Any]]
    constraints: list[str]
    is_held_out: bool = False
    _cache: dict[str, Any] = field(default_factory=dict)

    @property
    def history(self) -> list[dict[str, Any]]:
        return self.session["messages"][: self.cut]  # type: ignore[no-any-return]

    @cached_property
    def facts(self) -> list[Fact]:
        texts = [message_text(message).lower() for message in self.history]
        return [
            Fact(key, kind, weight, long_range, near_words(key, texts[first : last + 1]))
            for key, kind, weight, first, last, long_range in self.raw_facts
        ]

    @cached_property
    def decisions(self) -> list[str]:
        return self._sentences(_DECISION)

    @cached_property
    def open_items(self) -> list[str]:
        return self._sentences(_OPEN)

    @cached_property
    def later_calls(self) -> dict[str, list[str]]:
        """The real tool calls after the cut, each with its argument values that appear in the history."""
        before = "\n".join(message_text(message) for message in self.history).lower()
        calls = {}
        for message in self.session["messages"][self.cut : self.end]:
            for call in message.get("tool_calls") or ():
                values = [value for value in argument_values(call["function"]["arguments"]) if value in before]
                if values:
                    calls[call["id"]] = values
        return calls

    def _sentences(self, pattern: re.Pattern[str]) -> list[str]:
        sentences: dict[str, None] = {}
        for message in self.history:
            if message["role"] != "assistant":
                continue
            for sentence in _SENTENCE.split(message.get("content") or ""):
                if 25 <= len(sentence) <= 300 and pattern.search(sentence):
                    sentences[sentence.strip()] = None
        return list(sentences)


def message_text(message: dict[str, Any]) -> str:
    """Return the content of a message and the names and arguments of its calls."""
    parts = [message.get("content") or ""]
    for call in message.get("tool_calls") or ():
        parts += [call["function"]["name"], call["function"]["arguments"]]
    return "\n".join(parts)


def spoken_text(message: dict[str, Any]) -> str:
    """Return the content of a message and the unescaped values of its call arguments."""
    parts = [message.get("content") or ""]
    for call in message.get("tool_calls") or ():
        try:
            data = json.loads(call["function"]["arguments"])
        except ValueError:
            data = call["function"]["arguments"]
        values = data.values() if isinstance(data, dict) else [data]
        parts += [value if isinstance(value, str) else json.dumps(value) for value in values]
    return "\n".join(parts)


def argument_values(arguments: str) -> list[str]:
    """Return the short argument values of a call in lower case. Paths are reduced to their last two parts."""
    try:
        data = json.loads(arguments)
    except ValueError:
        return []
    values: list[str] = []
    pending = [data]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str) and 3 <= len(item) <= 200 and "\n" not in item:
            value = item.lower()
            is_path = "/" in value and " " not in value and "://" not in value
            values.append("/".join(value.rstrip("/").split("/")[-2:]) if is_path else value)
    return values


def near_words(key: str, texts: list[str], *, radius: int = 80, limit: int = 6) -> frozenset[str]:
    """Return the words close to the first few mentions of a key."""
    words: set[str] = set()
    seen = 0
    for text in texts:
        at = text.find(key)
        while at >= 0 and seen < limit:
            words.update(_WORD.findall(text[max(0, at - radius) : at]))
            words.update(_WORD.findall(text[at + len(key) : at + len(key) + radius]))
            seen += 1
            at = text.find(key, at + len(key))
    return frozenset(words)


def load_cases(sessions: dict[str, dict[str, Any]] | None = None) -> Iterator[Case]:
    """Yield all cuts of the shared data set. Every second session, sorted by id, is held out of tuning."""
    sessions = sessions or load_sessions()
    with lzma.open(DATA / "probes" / "future_use.jsonl.xz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    held_out = set(sorted({row["id"] for row in rows})[1::2])
    for row in rows:
        yield Case(
            sessions[row["id"]],
            row["budget"],
            row["ratio"],
            row["cut"],
            row["end"],
            row["facts"],
            row["constraints"],
            row["id"] in held_out,
        )
