"""Histories that go beyond plain text and tools, and the strict checks of the prompts that we send for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from compact import CompactConfig, CompactManager, CompactPolicy, NoopEstimator
from providers import anthropic_api, chat_api, responses_api
from providers.anthropic_api import Signatures
from providers.responses_api import Store

Item = dict[str, Any]
WORDS = "lorem ipsum dolor sit amet "


def small_manager(window: int = 3_000, *, config: dict[str, Any] | None = None, **policy: Any) -> CompactManager:
    """A manager that counts characters, so that sizes are easy to state."""
    settings = {"hard_cap_buffer": 100, "floor": "newest", **policy}
    return CompactManager(
        CompactConfig(
            "gpt-5", window, policy=CompactPolicy(**settings), token_estimator=NoopEstimator(), **(config or {})
        )
    )


@dataclass
class AnthropicHistory:
    """Messages of Anthropic's API with signed thinking."""

    signatures: Signatures = field(default_factory=Signatures)
    items: list[Item] = field(default_factory=list)
    calls: int = 0

    def thought(self, text: str = "Let me think.") -> Item:
        return {"type": "thinking", "thinking": text, "signature": self.signatures.sign(text)}

    def user(self, text: str) -> None:
        self.items.append({"role": "user", "content": text})

    def assistant(self, *blocks: Item) -> None:
        self.items.append({"role": "assistant", "content": list(blocks)})

    def results(self, *results: Item) -> None:
        self.items.append({"role": "user", "content": list(results)})

    def call(self, name: str = "read", **fields: Any) -> Item:
        self.calls += 1
        return {"type": "tool_use", "id": f"toolu_{self.calls}", "name": name, "input": {"n": self.calls}, **fields}

    def result(self, call: Item, text: str) -> Item:
        return {"type": "tool_result", "tool_use_id": call["id"], "content": text}

    def check(self, prompt: Sequence[Item], *, thinks: bool = True) -> None:
        """Raise `Rejection` if the API would reject the prompt."""
        body: Item = {"model": "claude-opus-4-6", "max_tokens": 4_096, "messages": list(prompt)}
        if thinks:
            body["thinking"] = {"type": "enabled", "budget_tokens": 2_000}
        anthropic_api.validate(body, self.signatures, is_beta=True)


def check_chat(prompt: Sequence[Item]) -> None:
    """Raise `Rejection` if Chat Completions would reject the prompt."""
    chat_api.validate({"model": "gpt-5", "messages": list(prompt)})


def check_responses(prompt: Sequence[Item]) -> None:
    """Raise `Rejection` if the Responses API would reject the prompt."""
    responses_api.validate({"model": "gpt-5", "input": list(prompt)}, Store())


def grow(
    manager: CompactManager, items: Sequence[Item], check: Callable[[list[Item]], None], *, calls_at: Sequence[int]
) -> list[Item]:
    """Call `preflight` with the first `n` items for each n, check each prompt, and return the last one."""
    prompt: list[Item] = []
    for size in calls_at:
        prompt = manager.preflight("s", list(items[:size]))
        check(prompt)
    return prompt


def text(prompt: Any) -> str:
    return json.dumps(prompt)
