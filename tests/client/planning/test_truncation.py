"""Truncation of long tool outputs."""

from __future__ import annotations

import pytest
from builders import Recorder, tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy, TiktokenEstimator
from compact.planning.tool_results.truncation import truncate_bytes_with_split, truncate_output, truncate_with_split
from hypothesis import given, settings
from hypothesis import strategies as st

count = TiktokenEstimator().count_tokens
LONG = "\n".join(f"line {number} of the log" for number in range(3000))


@pytest.mark.req("R-TRUNC-1")
def test_truncation_keeps_the_start_and_the_end():
    """Half of the limit is kept at each end, and the marker has the number of missing tokens."""
    cut = truncate_with_split(LONG, 1000, count)
    assert cut.startswith("line 0 of the log\n")
    assert cut.endswith("line 2999 of the log")
    head, marker, tail = cut.split("…")
    assert marker == f"{count(LONG) - count(head) - count(tail)} tokens truncated"
    assert count(cut) <= 1010
    assert abs(count(head) - count(tail)) < 100
    assert truncate_with_split("short", 1000, count) == "short"


@pytest.mark.req("R-TRUNC-1")
def test_truncation_by_bytes_and_without_truncation():
    """`bytes` cuts between characters, `none` cuts nothing, and a header may have the line count."""
    assert truncate_output(LONG, CompactPolicy(tool_output_truncation="none"), count) == LONG
    cut = truncate_output("é" * 100_000, CompactPolicy(tool_output_truncation="bytes"), count)
    assert len(cut.encode()) <= 5000 * 1.2 * 4 + 40
    assert "chars truncated" in cut
    headed = truncate_bytes_with_split(LONG, 100, with_line_count=True)
    assert headed.startswith("Total output lines: 3000\n")


@pytest.mark.req("R-TRUNC-1")
@pytest.mark.parametrize("text", ["word " * 5500, "\U0001f9ff" * 4000], ids=["inside the buffer", "four bytes each"])
def test_every_output_over_the_limit_is_truncated(text):
    """Includes outputs within the serialization buffer, and outputs with few characters but many tokens."""
    assert count(text) > 5000
    assert "tokens truncated…" in truncate_output(text, CompactPolicy(), count)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=3000), st.integers(2, 200))
def test_truncated_text_is_not_much_longer_than_the_limit(text, limit):
    """For any text and limit, the result is at most slightly longer than the limit."""
    cut = truncate_with_split(text, limit, count)
    assert count(cut) <= limit + 16 or cut == text


@pytest.mark.req("R-TRUNC-1")
def test_outputs_are_truncated_before_the_first_call():
    """An output over 5,000 tokens is truncated in the prompt and whole in the log. Protected outputs stay whole."""
    manager = CompactManager(CompactConfig("gpt-5", 128_000, exporter=Recorder()))
    messages = [{"role": "user", "content": "go"}, *tool_pair(1, LONG), *tool_pair(2, "short")]
    out = manager.preflight("s", messages)
    assert "tokens truncated…" in out[2]["content"]
    assert 5000 < count(out[2]["content"]) <= 6020
    assert out[3:] == messages[3:]
    assert manager._session("s").thread.messages[2].text == LONG
    protected = [messages[0], messages[1], {**messages[2], "meta": {"protected": True}}]
    assert manager.preflight("t", protected) == protected


def test_compaction_shows_the_newest_output_whole_if_it_fits():
    """The newest output is whole after a compaction, and older outputs stay truncated."""
    policy = CompactPolicy(tool_output_max_tokens=200, hard_cap_buffer=100)
    manager = CompactManager(CompactConfig("gpt-5", 6000, policy=policy))
    output = "word " * 1000
    old = [item for number in range(40) for item in tool_pair(number, output)]
    messages = [{"role": "user", "content": "go"}, *old, *tool_pair(99, output)]
    sent = manager.preflight("s", messages)
    assert sent[-1] == messages[-1]
    assert "tokens truncated" in sent[-3]["content"]
    assert manager.preflight("s", messages) == sent
    assert manager.rerender("s", 1) == sent


@pytest.mark.req("R-TRUNC-1")
def test_shell_output_is_truncated_inside_its_item():
    """A Responses shell output keeps its structure and exit code. Only its texts are truncated."""
    result = {"stdout": LONG, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    items = [
        {"role": "user", "content": "Run it."},
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["make"]}},
        {"type": "shell_call_output", "call_id": "c", "output": [result]},
    ]
    out = CompactManager(CompactConfig("gpt-5", 128_000)).preflight("s", items)
    assert out[:2] == items[:2]
    shown = out[2]["output"][0]
    assert shown == {**result, "stdout": shown["stdout"]}
    assert "tokens truncated" in shown["stdout"]
    assert count(shown["stdout"]) <= 6100
