"""Regression tests on recorded sessions: compaction keeps the facts that the agent needs next.

`python -m tests.bench.quality` is the full comparison. These tests check a small part of it on every run.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
from compact import CompactConfig, CompactManager, CompactPolicy, Message
from compact.messages import ToolCall
from compact.summarizers import ExtractiveSummarizer

from tests.bench.quality.cases import Case, message_text
from tests.bench.quality.score import key_facts, replayed_calls
from tests.bench.quality.systems import MODEL, count, newest, ours

FIXTURES = Path(__file__).parents[2] / "fixtures" / "quality"
STYLES = (
    "task_state",
    "brief",
    "extractive_brief",
    "step_ledger",
    "requirements_ledger",
    "code_delta",
    "decision_log",
)
GOLDENS = {
    **dict.fromkeys(STYLES, "tau-t3-k0"),
    # The first three messages of a session.
    **dict.fromkeys((f"{style}-short" for style in STYLES), "swea-13c795"),
    # A service agent gives no reasons. This session has decisions with inputs and outputs.
    "decision_log-of-edits": "swea-13c795",
}


def sessions() -> list[dict]:
    with lzma.open(FIXTURES / "sessions.jsonl.xz", "rt") as lines:
        return [json.loads(line) for line in lines]


def cases() -> list[Case]:
    """All cuts of the study through these sessions, each with its budget."""
    return [
        Case(session, budget, ratio, cut, end, [], [])
        for session in sessions()
        for budget, ratio, cut, end in session["cuts"]
    ]


def text_of(messages: list[dict]) -> str:
    return "\n".join(message_text(message) for message in messages).lower()


@pytest.mark.req("P-KR-3")
def test_later_calls_of_real_agents_are_still_possible():
    """In the compacted prompt, fewer than 3% of the real next calls lack a known argument."""
    possible = total = possible_after_truncation = 0
    for case in cases():
        case_possible, case_total = replayed_calls(case, text_of(ours(case)))
        possible, total = possible + case_possible, total + case_total
        possible_after_truncation += replayed_calls(case, text_of(newest(case)))[0]
    assert total >= 80
    assert possible >= 0.97 * total
    assert possible_after_truncation < possible, "the cases are too easy: truncation does as well as a summary"


@pytest.mark.req("P-KR-4")
def test_more_than_90_percent_of_the_key_facts_are_kept():
    """Ids, paths, amounts, dates and errors of the user and the assistant are still in the prompt."""
    for case in cases():
        facts = key_facts(case.history)
        text = text_of(ours(case))
        kept = sum(weight for key, weight in facts.items() if key in text)
        assert kept > 0.9 * sum(facts.values()), case.session["id"]


@pytest.mark.req("P-KR-4", "D-SUM-1", "S-LAY-2")
def test_ten_compactions_in_a_row_lose_no_constraint():
    """Rules, ids, numbers and paths survive ten compactions through the manager, verbatim."""
    manager = CompactManager(
        CompactConfig(model=MODEL, max_context_tokens=6_000, policy=CompactPolicy(hard_cap_buffer=0))
    )
    filler = "The weather service answered as expected and nothing else was noted. " * 12
    facts: list[str] = []
    messages: list[dict] = [{"role": "system", "content": "You are an agent."}]
    for step in range(10):
        rule = f"Never restart node-{step}71 without asking Dr. Vance first."
        note = f"Ticket OPS-{step}44 concerns /var/lib/store{step}/index.db and costs ${step}12.50."
        facts += [rule, f"OPS-{step}44", f"store{step}/index.db", f"${step}12.50"]
        messages += [
            {"role": "user", "content": f"{rule} {filler}"},
            {"role": "assistant", "content": f"{note} {filler}"},
        ]
        for turn in range(8):
            messages.append({"role": "user", "content": f"Go on with part {step}.{turn}. {filler}"})
            messages.append({"role": "assistant", "content": f"Part {step}.{turn} is done. {filler}"})
        messages = list(manager.manual_compact("s", messages, note=f"round {step}"))
    text = "\n".join(message["content"] for message in messages)
    assert [fact for fact in facts if fact not in text] == []
    assert text.count("<COMPACT-SUMMARY") == 1
    assert sum(count(message["content"]) for message in messages) <= 6_000


@pytest.mark.req("S-SUM-4", "P-SUM-1")
@pytest.mark.parametrize("golden", GOLDENS)
def test_summaries_of_a_real_session_match_their_goldens(golden):
    """The summary is byte-equal to the reviewed golden file."""
    session = next(session for session in sessions() if session["id"] == GOLDENS[golden])
    items = session["messages"][1 : 4 if golden.endswith("-short") else 30]
    messages = [as_message(message, index) for index, message in enumerate(items)]
    summary = ExtractiveSummarizer().summarize_span(
        messages, style=golden.partition("-")[0], max_tokens=900, count_tokens=count
    )
    assert summary.render() + "\n" == (FIXTURES / "summaries" / f"{golden}.txt").read_text("utf-8")


def as_message(item: dict, index: int) -> Message:
    calls = item.get("tool_calls") or ()
    return Message(
        item["role"],
        item["content"],
        tool_calls=tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls
        ),
        tool_call_id=item.get("tool_call_id"),
        id=f"m{index}",
    )
