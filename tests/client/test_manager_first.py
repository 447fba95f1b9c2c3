"""The front, as a newcomer would try it."""

from __future__ import annotations

import pytest
from compact import CompactConfig, CompactManager, CompactPolicy, InsufficientBudget, Message


class Recorder:
    def __init__(self):
        self.events = []

    def emit(self, event):
        self.events.append(event)

    def named(self, name):
        return [event for event in self.events if event["event"] == name]


def talk(turns, words=40):
    messages = [Message("system", "You are careful.")]
    for turn in range(turns):
        messages.append(Message("user", f"question {turn} " + "word " * words))
        messages.append(Message("assistant", f"answer {turn} " + "word " * words))
    return messages


@pytest.mark.req("S-LAY-1", "S-LAY-2")
def test_layers_come_in_order_and_the_number_rises():
    """Pinned, one summary, recent; a second compaction leaves one summary with the next number."""
    recorder = Recorder()
    policy = CompactPolicy(hard_cap_buffer=100)
    manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=2000, exporter=recorder, policy=policy))
    messages = talk(30)
    first = manager.preflight("s", messages)
    assert [message.role for message in first[:2]] == ["system", "assistant"]
    assert first[1].content.startswith("<COMPACT-SUMMARY v1>")
    assert first[2:] == messages[-12:]
    second = manager.preflight("s", [*first, *talk(20)[1:]])
    summaries = [message for message in second if message.content.startswith("<COMPACT-SUMMARY")]
    assert len(summaries) == 1
    assert summaries[0].content.startswith("<COMPACT-SUMMARY v2>")
    layers = recorder.named("compact.pruned_messages")[-1]["properties"]["layers"]
    assert layers == {"pinned": 1, "summary": 1, "recent": len(second) - 2}


@pytest.mark.req("S-PROT-3")
def test_protected_messages_over_budget_are_an_error_with_advice():
    """Protected messages larger than the budget raise, emit compact.error, and say what to do."""
    recorder = Recorder()
    manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=2000, exporter=recorder))
    big = Message("developer", "policy " * 3000, meta={"protected": True})
    with pytest.raises(InsufficientBudget, match="reduce protected memory"):
        manager.preflight("s", [big, Message("user", "hi")])
    assert recorder.named("compact.error")[0]["status"] == "error"
