"""Test doubles for the client's protocols, and builders for managers and messages."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from compact import CompactConfig, CompactManager, CompactPolicy, Message
from compact.protocols import Summarizer, TokenEstimator
from compact.testing import RecordingExporter


class Recorder(RecordingExporter):
    """An exporter that records events."""

    def last(self, name: str) -> dict[str, Any]:
        """Return the properties of the last event with this name."""
        properties: dict[str, Any] = self.of(name)[-1]["properties"]
        return properties


class FixedEstimator(TokenEstimator):
    """An estimator that always returns the same count."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def estimate(self, messages: Sequence[Message], model: str) -> int:
        return self.tokens


class SpySummarizer(Summarizer):
    """A summarizer that records its input and returns or raises the given answers in order."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers) or ["a short summary"]
        self.seen: list[list[Message]] = []
        self.styles: list[str] = []

    def summarize(self, messages: Sequence[Message], style: str, keep_keys: Sequence[str]) -> Message:
        self.seen.append(list(messages))
        self.styles.append(style)
        answer = self.answers[min(len(self.seen), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return Message("assistant", answer)


def small_manager(
    recorder: Any = None, window: int = 2000, buffer: int = 100, *, policy: dict[str, Any] | None = None, **options: Any
) -> CompactManager:
    """A manager whose window is small enough that a few messages fill it."""
    compact_policy = CompactPolicy(hard_cap_buffer=buffer, **(policy or {}))
    return CompactManager(CompactConfig("gpt-5", window, policy=compact_policy, exporter=recorder, **options))


def chat_turns(turns: int, words: int = 30, *, start: int = 0) -> list[Message]:
    """Pairs of a user question and an assistant answer."""
    messages = []
    for turn in range(start, start + turns):
        messages.append(Message("user", f"question {turn} about module {turn} " + "word " * words))
        messages.append(Message("assistant", f"answer {turn} " + "word " * words))
    return messages


def tool_pair(number: int, output: str = "ok") -> list[dict[str, Any]]:
    """A tool call and its output in chat format."""
    function = {"name": "run", "arguments": f'{{"n": {number}}}'}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": output},
    ]


WORDS = ("alpha", "beta", "parser", "deploy", "order", "cache", "module", "value", "error", "table", "index", "report")


def random_text(random_: random.Random, words: int) -> str:
    return " ".join(random_.choice(WORDS) for _ in range(words))


def agent_step(random_: random.Random, number: int, words: int) -> list[dict[str, Any]]:
    """Messages of one agent step: sometimes a question, mostly tool calls with outputs of very different sizes."""
    items: list[dict[str, Any]] = []
    if random_.random() < 0.4:
        items.append({"role": "user", "content": f"step {number}: {random_text(random_, words // 4)}"})
    calls = random_.choice([0, 1, 1, 2])
    if calls:
        ids = [f"c{number}-{call}" for call in range(calls)]
        function = {"name": "run", "arguments": json.dumps({"n": number})}
        tool_calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
        items.append({"role": "assistant", "content": None, "tool_calls": tool_calls})
        sizes = [random_.choice([3, words, 3 * words]) for _ in ids]
        items += [
            {"role": "tool", "tool_call_id": call_id, "content": random_text(random_, size)}
            for call_id, size in zip(ids, sizes, strict=True)
        ]
    else:
        items.append({"role": "assistant", "content": random_text(random_, words // 2)})
    return items
