"""The cost of compaction in a long session, compared with its model calls."""

from __future__ import annotations

import time
from typing import Any

import pytest
from compact import CallbackExporter, CompactConfig, CompactManager

TURNS = 1_000
# A fast model needs about this long for a long prompt. Real agents wait longer, so their share is smaller.
MODEL_CALL_S = 0.2


@pytest.mark.req("S-PERF-1")
def test_compaction_takes_less_than_a_tenth_of_a_long_session() -> None:
    """A session of 1,000 turns and at least five compactions spends less than 10% of its time in the library."""
    compactions: list[dict[str, Any]] = []
    exporter = CallbackExporter(lambda event: event["event"] == "compact.pruned_messages" and compactions.append(event))
    manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=32_000, exporter=exporter))
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a careful agent."}]
    spent_s = 0.0
    for number in range(TURNS):
        messages.append({"role": "user", "content": f"Look at ticket T-{number} and the file src/part_{number}.py."})
        began = time.thread_time()
        manager.preflight("long", messages)
        spent_s += time.thread_time() - began
        answer = f"Part {number} needs {number * 3} units because the limit is {number % 90} ms. " * 6
        messages.append({"role": "assistant", "content": answer})
    session_s = spent_s + TURNS * MODEL_CALL_S
    assert len(compactions) >= 5
    assert spent_s < 0.1 * session_s, f"{spent_s:.1f} s of {session_s:.1f} s"
