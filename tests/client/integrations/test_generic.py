"""Any loop can use it: a hook before the call, one after it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from builders import Recorder, SpySummarizer, chat_turns, tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy, Message
from compact.engine.quality import asks_for_context
from compact.integrations.generic import abefore_model_call, after_model_call, before_model_call


def manager_with(recorder=None, window=2000, **options):
    return CompactManager(
        CompactConfig("gpt-5", window, policy=CompactPolicy(hard_cap_buffer=100), exporter=recorder, **options)
    )


@pytest.mark.req("P-KR-6")
async def test_before_and_after_model_call():
    """The hook replaces ctx.messages, counts tools and instructions, and hands usage back."""
    recorder = Recorder()
    manager = manager_with(recorder)
    ctx = SimpleNamespace(
        session_id="s", messages=chat_turns(30), tools=[{"name": "f"}], system="be careful", developer=None
    )
    before_model_call(manager)(ctx)
    assert len(ctx.messages) == 13
    breakdown = recorder.named("compact.token_estimate")[0]["properties"]["breakdown"]
    assert breakdown["tools_schema"] > 0
    assert breakdown["system"] > 0
    ctx.response = SimpleNamespace(usage={"input_tokens": 3000})
    after_model_call(manager)(ctx)
    await abefore_model_call(manager)(ctx)
    assert recorder.last("compact.token_estimate")["source"] == "provider"


def test_a_breaker_stops_compactions_that_do_not_help():
    """When compacting frees almost nothing, it stops until the budget itself is reached, and says so."""
    recorder = Recorder()

    class Wordy(SpySummarizer):
        def summarize(self, messages, style, keep_keys):
            return Message("assistant", "word " * 60)

    pinned = Message("developer", "rule " * 1580)
    manager = manager_with(recorder, summarizer=Wordy())
    history = [pinned, *chat_turns(1, words=10)]
    for turn in range(12):
        history = [*history, Message("user", f"q{turn}"), Message("assistant", f"a{turn}")]
        history = manager.preflight("s", history)
    assert recorder.named("compact.breaker_open")
    assert len(recorder.named("compact.check_started")) == 2
    assert recorder.last("compact.check")["tokens_after"] <= 1900
    history = manager.preflight("s", [*history, *chat_turns(3)])
    assert len(recorder.named("compact.check_started")) == 3


@pytest.mark.req("D-QUAL-1")
def test_quality_figures_are_emitted_after_a_compaction():
    """Turns since, questions about the past, explicit reads and the outcome are an event."""
    recorder = Recorder()
    manager = manager_with(recorder)
    history = manager.preflight("s", chat_turns(30))
    manager.preflight("s", [*history, Message("assistant", "Could you remind me which module it was?")])
    assert recorder.last("compact.quality")["agent_asked_for_context"] is True
    manager.report_outcome("s", success=True)
    metrics = recorder.last("compact.quality")
    assert metrics["task_completion_success"] is True
    assert metrics["turns_since_compaction"] == 2
    assert not asks_for_context([Message("assistant", "Done."), Message("user", "could you remind me?")])


@pytest.mark.req("S-OBS-1")
def test_an_archive_that_fails_stops_the_pruning():
    """Nothing is pruned that could not be archived, unless the caller says so; either way it is an event."""

    class Full:
        def save_transcript(self, session_id, transcript):
            raise OSError("disk full")

        def save_summary(self, session_id, summary, step): ...

        def save_event(self, session_id, event): ...

    recorder = Recorder()
    messages = chat_turns(30)
    assert manager_with(recorder, storage=Full()).preflight("s", messages) == messages
    assert recorder.last("compact.error")["fallback"] == "not compacted: archive failed"
    assert len(manager_with(recorder, storage=Full(), archive_required=False).preflight("s", messages)) == 13
    assert recorder.last("compact.warning")["code"] == "archive_failed"


@pytest.mark.req("R-PAIR-1")
def test_repeated_call_ids_stay_paired():
    """Some hosts reuse call ids; each output belongs to the call before it."""
    messages = [{"role": "user", "content": "go"}]
    for number in range(30):
        pair = tool_pair(1, f"result {number} " + "word " * 30)
        messages += pair
    out = manager_with().preflight("s", messages)
    roles = [item["role"] for item in out if item["role"] != "user" and not str(item["content"]).startswith("<COMPACT")]
    assert roles == ["assistant", "tool"] * (len(roles) // 2)
    assert out[-1] == messages[-1]
