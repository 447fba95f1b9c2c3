"""Sessions whose instructions take half of the window."""

from __future__ import annotations

from builders import Recorder
from compact import CompactConfig, CompactManager, CompactPolicy


def test_the_summary_uses_what_large_instructions_leave():
    """Space for later calls must not take the room of the summary, even if the session grows fast."""
    recorder = Recorder()
    config = CompactConfig(
        model="gpt-4o", max_context_tokens=2_500, exporter=recorder, policy=CompactPolicy(hard_cap_buffer=0)
    )
    manager = CompactManager(config)
    history = [{"role": "system", "content": "Answer questions about orders politely. " * 200}]
    for number in range(24):
        order = f"ORD-{number}71{number}"
        history.append({"role": "user", "content": f"What about order {order}?"})
        manager.preflight("s", history)
        answer = f"Order {order} was sent from dock {number + 40} and costs {number * 37 + 11} euros."
        history.append({"role": "assistant", "content": f"{answer} {'It is on its way. ' * 12}"})
    summaries = [event["properties"]["summary_tokens"] for event in recorder.of("compact.summary_created")]
    assert len(summaries) > 1
    assert min(summaries) > 150
