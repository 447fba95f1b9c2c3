"""Older messages stay word for word, with excerpts of their tool outputs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import Recorder, small_manager
from compact.adapters.plan_stores import MemoryCompactionStore
from compact.planning.tool_results.excerpt import excerpt

SYSTEM = {"role": "system", "content": "You are careful."}
BUILD = "\n".join([f"compiling module {number}" for number in range(60)] + ["done"])


def step(number: int, output: str = BUILD) -> list[dict[str, Any]]:
    """Return what the assistant says, its call, and a long output."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "build", "arguments": f'{{"n": {number}}}'}}
    said = f"Step {number}: I build part {number} because the one before it works."
    return [
        {"role": "assistant", "content": said, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": output},
    ]


def history(steps: int = 14) -> list[dict[str, Any]]:
    items = [SYSTEM, {"role": "user", "content": "Build all parts, one after the other."}]
    return [*items, *(message for number in range(steps) for message in step(number))]


def find_steps(prompt: Any) -> list[int]:
    return [number for number in range(40) if f"Step {number}: I build part {number} because" in json.dumps(prompt)]


def test_what_was_said_stays_while_old_outputs_are_shortened():
    """Every step is still there, and each call has its result."""
    manager = small_manager(window=4_500, policy={"story_pct": 0.9})
    out = manager.preflight("s", history())
    assert find_steps(out) == list(range(14))
    assert sum("tokens truncated… (" in item["content"] for item in out if item["role"] == "tool") > 5
    calls = [call["id"] for item in out for call in item.get("tool_calls", ())]
    assert calls == [item["tool_call_id"] for item in out if item["role"] == "tool"]
    fates = {entry.fate for entry in manager.plan("s").ledger if entry.rule.startswith("story")}
    assert "truncated" in fates


def test_another_process_shows_the_same_excerpts():
    """The plan has the limit of each output."""
    store = MemoryCompactionStore()
    first = small_manager(window=4_500, plan_store=store).preflight("s", history())
    question = {"role": "user", "content": "Go on."}
    second = small_manager(window=4_500, plan_store=store).preflight("s", [*history(), question])
    assert list(second) == [*first, question]


def test_a_summary_replaces_all_older_messages_without_a_share_for_them():
    out = small_manager(window=4_500, policy={"story_pct": 0.0, "keep_tool_io_pairs": 2}).preflight("s", history())
    assert sum(item["role"] == "tool" for item in out) == 2


def test_each_excerpt_is_reported():
    recorder = Recorder()
    small_manager(recorder, window=4_500, policy={"story_pct": 0.9}).preflight("s", history())
    reports = recorder.of("compact.truncated")
    assert reports
    assert all(report["properties"]["tokens_freed"] > 0 for report in reports)


@pytest.mark.parametrize("limit", [24, 50, 100])
def test_an_excerpt_has_whole_lines_and_says_what_is_missing(limit):
    """Each line stands next to a neighbor from its source."""
    lines = BUILD.split("\n")
    parts = excerpt(BUILD, limit, lambda text: len(text) // 4).split("\n")
    kept = [part for part in parts if part in lines]
    assert all("tokens truncated… (" in part for part in parts if part not in kept)
    assert lines[0] in kept
    assert len(kept) >= 2


def test_an_excerpt_shows_the_first_error():
    output = BUILD.replace("compiling module 30", "error: module 30 has no main function")
    assert "compiling module 29\nerror: module 30 has no main function" in excerpt(
        output, 60, lambda text: len(text) // 4
    )


def test_a_small_excerpt_of_a_file_has_none_of_its_lines():
    """Two lines of a file without the rest say nothing."""
    output = "\n".join(f"   {number}→ value_{number} = {number}" for number in range(60))
    assert excerpt(output, 24, lambda text: len(text) // 4).startswith("…")
