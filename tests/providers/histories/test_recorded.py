"""The prompts of real coding agents are accepted in every layout, request by request.

`recorded/` has the messages of sessions of Claude Code and Codex with a scripted model. Both agents move their cache
marks, add instructions among the messages, and compact on their own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from compact import CallbackExporter, CompactConfig, CompactManager, CompactPolicy
from compact.messages.block_kinds import BLOCK_KINDS
from providers.histories.anthropic_history import AnthropicHistory
from providers.histories.grammar import RENDERERS
from providers.histories.history import History, Item
from providers.histories.openai_histories import ResponsesHistory
from providers.histories.play import ESTIMATOR, check_prompt, decode
from providers.histories.routes import Preflight

_FOLDER = Path(__file__).parent / "recorded"


@dataclass(frozen=True)
class Recording:
    """The messages of each request of a session, and the history that knows what the provider issued."""

    requests: list[list[Item]]
    history: History

    @property
    def tokens(self) -> int:
        """The size of the largest request."""
        return max(ESTIMATOR.estimate(decode(items, self.history.codec), "gpt-5") for items in self.requests)


def load_recording(agent: str) -> Recording:
    data = json.loads((_FOLDER / f"{agent}.json").read_text())
    items: list[Item] = data["items"]
    history = HISTORIES[agent](items)
    return Recording([[items[index] for index in request] for request in data["requests"]], history)


def claude_code(items: list[Item]) -> History:
    history = AnthropicHistory(thinks=True)
    blocks = [block for item in items if isinstance(item["content"], list) for block in item["content"]]
    for block in blocks:
        if block["type"] == "thinking":
            history.signatures.add(block)
    return history


def codex(items: list[Item]) -> History:
    history = ResponsesHistory(thinks=True)
    history.store.sealed.update(item["encrypted_content"] for item in items if "encrypted_content" in item)
    return history


HISTORIES: dict[str, Any] = {"claude_code": claude_code, "codex": codex}


def kinds_of(requests: list[list[Item]]) -> set[str]:
    """Return the rows of the table that the requests have."""
    items = [item for request in requests for item in request]
    blocks = [block for item in items if isinstance(item.get("content"), list) for block in item["content"]]
    return {part["type"] for part in [*items, *blocks] if part.get("type") in BLOCK_KINDS}


@pytest.mark.parametrize("agent", HISTORIES)
def test_a_recording_is_accepted_as_it_is(agent: str) -> None:
    recorded = load_recording(agent)
    for items in recorded.requests:
        recorded.history.validate(items)
    assert len(recorded.requests) == 25
    assert len(kinds_of(recorded.requests)) >= 4


@pytest.mark.req("A-WIRE-1", "A-WIRE-2", "A-END-1")
@pytest.mark.parametrize("agent", HISTORIES)
@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("share", [1.5, 0.9, 0.6])
def test_each_request_of_an_agent_is_right(agent: str, renderer: str, share: float) -> None:
    """Each prompt is accepted, ends with the newest message, fits or reports its size, and keeps its cache marks."""
    recorded = load_recording(agent)
    events: list[Any] = []
    policy = CompactPolicy(hard_cap_buffer=100, renderer=renderer, keep_recent_turns=2, keep_tool_io_pairs=2)
    window = int(recorded.tokens * share)
    manager = CompactManager(
        CompactConfig(
            "gpt-5", window, policy=policy, token_estimator=ESTIMATOR, exporter=CallbackExporter(events.append)
        )
    )
    compactions = 0
    for items in recorded.requests:
        events.clear()
        prompt = Preflight().send(manager, list(items), recorded.history.codec)
        compactions += any(event["event"] == "compact.pruned_messages" for event in events)
        check_prompt(prompt, items, recorded.history, events, manager)
        if window > recorded.tokens / 0.8:
            assert prompt == items
    assert bool(compactions) == (share < 1)
