"""Regression: on recorded sessions, compaction loses neither what the agent needs next nor what the user said.

The large comparison is `python -m tests.bench.quality`; this is its floor, small enough for every run.
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
GOLDENS = {
    **dict.fromkeys(
        ("task_state", "brief", "step_ledger", "requirements_ledger", "code_delta", "decision_log"), "tau-t3-k0"
    ),
    # A service agent gives no reasons: the ledger's inputs and outputs show on an agent that repairs its own edits.
    "decision_log-of-edits": "swea-13c795",
}


def sessions() -> list[dict]:
    with lzma.open(FIXTURES / "sessions.jsonl.xz", "rt") as lines:
        return [json.loads(line) for line in lines]


def cases() -> list[Case]:
    """Every cut that the study made through these sessions, at its budget."""
    return [
        Case(session, budget, ratio, cut, end, [], [])
        for session in sessions()
        for budget, ratio, cut, end in session["cuts"]
    ]


def text_of(messages: list[dict]) -> str:
    return "\n".join(message_text(message) for message in messages).lower()


@pytest.mark.req("P-KR-3")
def test_the_later_calls_of_real_agents_can_still_be_made():
    """Replayed against the compacted prompt, fewer than 3 % of the real next calls lack an argument they had before."""
    made = wanted = made_by_truncation = 0
    for case in cases():
        could, total = replayed_calls(case, text_of(ours(case)))
        made, wanted = made + could, wanted + total
        made_by_truncation += replayed_calls(case, text_of(newest(case)))[0]
    assert wanted >= 80
    assert made >= 0.97 * wanted
    assert made_by_truncation < made, "the cases must be hard enough to tell a good summary from none"


@pytest.mark.req("P-KR-4")
def test_more_than_nine_tenths_of_the_key_entities_stay():
    """Ids, paths, amounts, dates and errors that somebody said or passed on are still in the prompt."""
    for case in cases():
        facts = key_facts(case.history)
        text = text_of(ours(case))
        kept = sum(weight for key, weight in facts.items() if key in text)
        assert kept > 0.9 * sum(facts.values()), case.session["id"]


@pytest.mark.req("P-KR-4", "D-SUM-1", "S-LAY-2")
def test_ten_compactions_in_a_row_lose_no_constraint():
    """Planted rules, ids, numbers and paths survive ten rounds through the manager, word for word."""
    manager = CompactManager(
        CompactConfig(model=MODEL, max_context_tokens=6_000, policy=CompactPolicy(hard_cap_buffer=0))
    )
    filler = "The weather service answered as expected and nothing else was noted. " * 12
    planted: list[str] = []
    messages: list[dict] = [{"role": "system", "content": "You are an agent."}]
    for step in range(10):
        rule = f"Never restart node-{step}71 without asking Dr. Vance first."
        facts = f"Ticket OPS-{step}44 concerns /var/lib/store{step}/index.db and costs ${step}12.50."
        planted += [rule, f"OPS-{step}44", f"store{step}/index.db", f"${step}12.50"]
        messages += [
            {"role": "user", "content": f"{rule} {filler}"},
            {"role": "assistant", "content": f"{facts} {filler}"},
        ]
        for turn in range(8):
            messages.append({"role": "user", "content": f"Go on with part {step}.{turn}. {filler}"})
            messages.append({"role": "assistant", "content": f"Part {step}.{turn} is done. {filler}"})
        messages = list(manager.manual_compact("s", messages, note=f"round {step}"))
    text = "\n".join(message["content"] for message in messages)
    assert [fact for fact in planted if fact not in text] == []
    assert text.count("<COMPACT-SUMMARY") == 1
    assert sum(count(message["content"]) for message in messages) <= 6_000


@pytest.mark.req("S-SUM-4", "P-SUM-1")
@pytest.mark.parametrize("golden", GOLDENS)
def test_summaries_of_a_real_session_match_their_goldens(golden):
    """The same bytes as when the golden was reviewed."""
    session = next(session for session in sessions() if session["id"] == GOLDENS[golden])
    messages = [as_message(message, place) for place, message in enumerate(session["messages"][1:30])]
    summary = ExtractiveSummarizer().summarize_span(
        messages, style=golden.partition("-")[0], max_tokens=900, count_tokens=count
    )
    assert summary.render() + "\n" == (FIXTURES / "summaries" / f"{golden}.txt").read_text("utf-8")


def as_message(item: dict, place: int) -> Message:
    calls = item.get("tool_calls") or ()
    return Message(
        item["role"],
        item["content"],
        tool_calls=tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls
        ),
        tool_call_id=item.get("tool_call_id"),
        id=f"m{place}",
    )
