"""A summary that the prompt does not contain is reported as such, and nothing counts as lost."""

from __future__ import annotations

from collections import Counter

from builders import Recorder
from compact import CompactConfig, CompactManager, CompactPolicy, Message

KEY = "sk-ant-api03-" + "Qz7RkV2mXw9PbT4c" * 3


class WordySummarizer:
    """Fills all the room there is, with a secret at the end."""

    def summarize(self, messages, style, keep_keys, max_tokens):
        return Message("assistant", "word " * (max_tokens - 60) + KEY)


def questions(count: int) -> list[dict[str, str]]:
    history = []
    for number in range(count):
        history.append({"role": "user", "content": f"Order {number}: what does part P-{number} cost?"})
        history.append({"role": "assistant", "content": f"Part P-{number} costs {number} euros. " * 8})
    return history


def run(summarizer: object, *, trigger_pct: float) -> Recorder:
    recorder = Recorder()
    policy = CompactPolicy(
        hard_cap_buffer=0, summary_ratio=1.0, summary_room_pct=1.0, growth_tokens=0, trigger_pct=trigger_pct
    )
    config = CompactConfig(
        model="gpt-4o", max_context_tokens=1_000, summarizer=summarizer, exporter=recorder, policy=policy
    )
    manager = CompactManager(config)
    history = questions(4)
    prompt = manager.preflight("s", history)
    assert len(prompt) == len(history) or recorder.of("compact.pruned_messages")
    return recorder


def test_a_summary_that_saves_nothing_is_not_reported_as_created():
    recorder = run(WordySummarizer(), trigger_pct=0.2)
    names = Counter(event["event"] for event in recorder.events)
    assert names["compact.summary_discarded"] == 1
    assert not names.keys() & {"compact.summary_created", "compact.retention", "compact.pruned_messages"}
    assert recorder.last("compact.completed")["details"] == {"changed": False}
    discarded = recorder.last("compact.summary_discarded")
    assert discarded["reason"] == "the prompt would not be smaller with it"
    assert discarded["summary_tokens"] > 100
    assert discarded["input_messages"] > 0
    assert KEY not in str(recorder.events)


def test_a_summary_that_is_used_is_reported_once():
    recorder = run(None, trigger_pct=0.2)
    names = Counter(event["event"] for event in recorder.events)
    assert names["compact.summary_created"] == names["compact.retention"] == names["compact.pruned_messages"] == 1
    assert not names["compact.summary_discarded"]
    created = next(event for event in recorder.events if event["event"] == "compact.summary_created")
    pruned = next(event for event in recorder.events if event["event"] == "compact.pruned_messages")
    assert created["started_at"] <= created["ended_at"] <= pruned["ts"]
