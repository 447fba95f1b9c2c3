"""Compactions that the provider makes itself, seen through the integrations."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from compact import CallbackExporter, CompactConfig, CompactManager
from compact.integrations.anthropic import AnthropicMessages
from compact.integrations.model_call import ModelCall
from compact.integrations.openai import Responses
from compact.integrations.provider_compaction import FAILED, INCOMPLETE, ProviderCompactions
from compact.ledgers.inferred_ledger import UNDISCLOSED

SECRET = "sk-ant-api03-" + "x7Qp2" * 16
UNDISCLOSED_RULE = "the provider does not disclose this summary"
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Never drop orders_2024."},
    {"role": "assistant", "content": "I will not."},
    {"role": "user", "content": "Go on."},
]


class Client:
    """A client whose `responses` and `messages` return one prepared response."""

    def __init__(self, response: Any) -> None:
        self.responses = self.messages = SimpleNamespace(create=lambda **_: response)


def managers(*, window: int = 100_000) -> tuple[CompactManager, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    exporter = CallbackExporter(events.append)
    return CompactManager(CompactConfig(model="gpt-5", max_context_tokens=window, exporter=exporter)), events


def provider_events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == "compact.provider_compaction"]


def test_an_openai_compaction_item_is_reported_as_undisclosed() -> None:
    """The encrypted summary is not claimed to contain anything."""
    manager, events = managers()
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    response = SimpleNamespace(usage={"input_tokens": 90_000, "output_tokens": 5}, output=[item, {"type": "message"}])
    Responses(Client(response), manager, session_id="s").create(model="gpt-5", input=HISTORY)
    (event,) = provider_events(events)
    assert event["session_id"] == "s"
    assert event["properties"] == {
        "provider": "openai", "kind": "compaction", "is_disclosed": False, "tokens_before": 90_000,
        "fates": {"summarized": 3}, "inferred": True, "item_id": "cmp_1", "note": UNDISCLOSED,
    }  # fmt: skip
    assert event["payload"]["summary"] is None
    assert [entry["rule"] for entry in event["payload"]["ledger"]] == [UNDISCLOSED_RULE] * 3
    assert "gAAAA" not in repr(events)


def test_no_ledger_is_inferred_without_an_exporter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing would show it, and inferring it takes time in a long session."""
    monkeypatch.setattr(ProviderCompactions, "read_response", fail)
    response = SimpleNamespace(usage=None, output=[{"type": "compaction", "id": "cmp_1", "encrypted_content": "g"}])
    manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=100_000))
    Responses(Client(response), manager, session_id="s").create(model="gpt-5", input=HISTORY)
    assert capsys.readouterr().err == ""


def fail(*_: Any) -> Iterator[Any]:
    """Fail when the first compaction is read."""
    yield from ()
    raise AssertionError


def test_anthropic_compaction_blocks_and_edits_are_reported() -> None:
    """The summary is redacted. Each edit is an event with its counts. One that does not fit the request says so."""
    manager, events = managers()
    edits = [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000}]
    response = {
        "usage": {"input_tokens": 120_000},
        "content": [{"type": "compaction", "content": f"The table orders_2024 stays. Key {SECRET}."}],
        "context_management": {"applied_edits": edits},
    }
    AnthropicMessages(Client(response), manager, session_id="s").create(
        model="claude-opus-4-6", max_tokens=10, messages=HISTORY
    )
    compaction, edit = provider_events(events)
    assert compaction["properties"]["is_disclosed"] is True
    assert "orders_2024 stays" in compaction["payload"]["summary"]
    assert SECRET not in repr(events)
    assert edit["properties"]["fates"] == {"kept": 3}
    assert edit["properties"]["cleared_tool_uses"] == 8
    assert edit["properties"]["note"] == INCOMPLETE
    assert edit["properties"]["cleared_input_tokens"] == 50_000


def test_a_streamed_compaction_is_reported_once() -> None:
    """Two sessions of one manager do not mix."""
    manager, events = managers()
    parts: list[Any] = [
        {"type": "content_block_start", "content_block": {"type": "compaction", "content": None}},
        {"type": "content_block_delta", "delta": {"type": "compaction_delta", "content": "The table "}},
        {"type": "content_block_delta", "delta": {"type": "compaction_delta", "content": "stays."}},
        {"type": "content_block_stop"},
        {"type": "content_block_stop"},
        {"type": "message_delta", "context_management": {"applied_edits": []}, "usage": {"output_tokens": 3}},
    ]
    stream = [_Part(part) for part in parts]
    call = ModelCall(manager, "first", HISTORY, options=lambda: {})
    assert list(call.stream(lambda _: iter(stream), prepared=HISTORY)) == stream
    other = ModelCall(manager, "second", HISTORY, options=lambda: {})
    list(other.stream(lambda _: iter(stream[-1:]), prepared=HISTORY))
    (event,) = provider_events(events)
    assert (event["session_id"], event["payload"]["summary"]) == ("first", "The table stays.")


def report(messages: list[Any], response: dict[str, Any]) -> dict[str, Any]:
    """Return the only event of one response."""
    manager, events = managers()
    ModelCall(manager, "s", messages, options=lambda: {}).report(response)
    (event,) = provider_events(events)
    return event


def test_a_second_compaction_covers_only_what_followed_the_first() -> None:
    """The provider ignores everything in front of its own item."""
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    event = report([*HISTORY, item, HISTORY[2]], {"output": [{**item, "id": "cmp_2"}]})
    assert [(entry["id"], entry["into"]) for entry in event["payload"]["ledger"]] == [("m4", "cmp_2"), ("m5", "cmp_2")]


def test_a_compaction_that_failed_keeps_every_message() -> None:
    """Anthropic returns a block without content, which is not an encrypted summary."""
    event = report(HISTORY, {"content": [{"type": "compaction", "content": None}]})
    assert event["properties"]["fates"] == {"kept": 3}
    assert event["properties"]["note"] == FAILED
    sealed = report(HISTORY, {"content": [{"type": "compaction", "content": None, "encrypted_content": "x"}]})
    assert sealed["properties"]["note"] == UNDISCLOSED


def test_cleared_thinking_is_that_of_the_oldest_turns() -> None:
    """A tool loop is one turn. Thinking is not a fact, so nothing is lost."""
    thinking = {"type": "thinking", "thinking": f"The key is {SECRET}.", "signature": "s"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    messages = [
        HISTORY[0],
        {"role": "assistant", "content": [thinking, call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "Done."}]},
        HISTORY[2],
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "Done again."}]},
        HISTORY[2],
    ]
    edits = [{"type": "clear_thinking_20251015", "cleared_thinking_turns": 1, "cleared_input_tokens": 9}]
    event = report(messages, {"context_management": {"applied_edits": edits}})
    cleared = [entry["id"] for entry in event["payload"]["ledger"] if entry["fate"] == "cleared"]
    assert cleared == ["m2", "m4"]
    assert not event["payload"]["lost"]
    before, after = event["payload"]["ledger"], event["payload"]["after"]
    changed = [old["id"] for old, new in zip(before, after, strict=True) if old["hash"] != new["hash"]]
    assert changed == cleared
    assert SECRET not in repr(event)


def test_the_ledger_is_that_of_the_request_that_was_sent() -> None:
    """The provider compacts what this library left of the conversation."""
    manager, events = managers(window=2_000)
    messages = [{"role": role, "content": f"{number} " + "lorem ipsum " * 40} for number in range(40)
                for role in ("user", "assistant")]  # fmt: skip
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    sent: list[Any] = []

    def send(items: list[Any]) -> Any:
        sent.extend(items)
        return {"output": [item]}

    ModelCall(manager, "s", [*messages, HISTORY[2]], options=lambda: {}).run(send)
    (event,) = provider_events(events)
    assert 0 < len(sent) < len(messages)
    assert event["properties"]["fates"] == {"summarized": len(sent)}


class _Part(dict[str, Any]):
    """A part of a stream: its fields are keys and attributes, as in the clients' models."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)
