"""Safeguards of the engine: the circuit breaker, quality events, a failed archive, and reused call ids."""

from __future__ import annotations

import pytest
from builders import Recorder, SpySummarizer, chat_turns, small_manager, tool_pair
from compact import CompactConfig, CompactError, CompactManager, CompactPolicy, Message
from compact.engine.quality import asks_for_context


def test_a_breaker_stops_compactions_that_do_not_help():
    """If compactions free almost nothing, they pause until the budget itself is exceeded, and an event reports it."""
    recorder = Recorder()

    class LongSummarizer(SpySummarizer):
        def summarize(self, messages, style, keep_keys):
            return Message("assistant", "word " * 60)

    pinned = Message("developer", "rule " * 1580)
    manager = small_manager(recorder, summarizer=LongSummarizer())
    history = [pinned, *chat_turns(1, words=10)]
    for turn in range(12):
        history = [*history, Message("user", f"q{turn}"), Message("assistant", f"a{turn}")]
        history = manager.preflight("s", history)
    assert recorder.of("compact.breaker_open")
    assert len(recorder.of("compact.check_started")) == 2
    assert recorder.last("compact.check")["tokens_after"] <= 1900
    history = manager.preflight("s", [*history, *chat_turns(3)])
    assert len(recorder.of("compact.check_started")) == 3


@pytest.mark.req("D-QUAL-1")
def test_quality_is_measured_after_a_compaction():
    """An event has the turns since the compaction, questions about lost context, artifact reads and the outcome."""
    recorder = Recorder()
    manager = small_manager(recorder)
    history = manager.preflight("s", chat_turns(30))
    manager.preflight("s", [*history, Message("assistant", "Could you remind me which module it was?")])
    assert recorder.last("compact.quality")["agent_asked_for_context"] is True
    manager.report_outcome("s", success=True)
    metrics = recorder.last("compact.quality")
    assert metrics["task_completion_success"] is True
    assert metrics["turns_since_compaction"] == 2
    assert not asks_for_context([Message("assistant", "Done."), Message("user", "could you remind me?")])


@pytest.mark.req("S-OBS-1", "A-END-2")
def test_a_failed_archive_prevents_pruning(capsys):
    """Within the budget, the request is returned as it is. Over the budget, an exception is raised.

    With `archive_required=False`, the compaction goes ahead with a warning.
    """

    class FullDisk:
        def save_transcript(self, session_id, transcript):
            raise OSError("disk full")

        def save_summary(self, session_id, summary, step): ...

        def save_event(self, session_id, event): ...

    recorder = Recorder()
    messages = chat_turns(30)
    assert small_manager(storage=FullDisk()).preflight("s", messages[:44]) == messages[:44]
    assert "not compacted: archive failed" in capsys.readouterr().err
    with pytest.raises(CompactError, match="disk full"):
        small_manager(recorder, storage=FullDisk()).preflight("s", messages)
    assert recorder.last("compact.error")["fallback"] == "none: raised to the caller"
    assert recorder.last("compact.over_budget")["excess_tokens"] > 0
    assert len(small_manager(recorder, storage=FullDisk(), archive_required=False).preflight("s", messages)) == 13
    assert recorder.last("compact.warning")["code"] == "archive_failed"


@pytest.mark.req("R-PAIR-1")
def test_reused_call_ids_stay_paired():
    """Some hosts reuse call ids. Each output belongs to the call before it."""
    messages = [{"role": "user", "content": "go"}]
    for number in range(30):
        pair = tool_pair(1, f"result {number} " + "word " * 30)
        messages += pair
    out = small_manager().preflight("s", messages)
    roles = [item["role"] for item in out if item["role"] != "user" and not str(item["content"]).startswith("<COMPACT")]
    assert roles == ["assistant", "tool"] * (len(roles) // 2)
    assert out[-1] == messages[-1]


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize(
    "name",
    ["trigger_pct", "min_left_pct", "target_pct", "summary_room_pct", "summary_ratio", "min_gain_pct"],
)
def test_every_share_of_a_policy_works_at_its_limits(name, share):
    """Two compactions run, or the error says what is wrong with the policy."""
    try:
        policy = CompactPolicy(**{"hard_cap_buffer": 100, name: share})
    except CompactError as error:
        assert name in str(error)
        return
    manager = CompactManager(CompactConfig("gpt-4o", 2_000, policy=policy))
    history = manager.preflight("s", chat_turns(30))
    history = manager.preflight("s", [*history, *chat_turns(20, start=30)])
    assert sum(len(message.text.split()) for message in history) < 2_000
