"""Golden prompts: three shapes of one plan, byte for byte.

Delete a golden to have it written anew, and read its diff.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders import tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy, Message, TiktokenEstimator
from compact.adapters.artifact_stores import MemoryArtifactStore
from compact.messages.codecs import get_codec
from compact.rendering import get_renderer
from compact.rendering.bridge import build_compacted_history, collect_user_messages, select_user_messages
from compact.summary.structured_summary import StructuredSummary

GOLDENS = Path(__file__).parents[2] / "goldens" / "prompts"


class Told:
    """A typed summariser whose words never change, so that a golden is about the shape."""

    def summarize_span(self, messages, *, style, keep_keys=(), max_tokens, visible=(), count_tokens=None):
        return StructuredSummary(
            style=style,
            constraints=("Never refund more than 50 EUR without asking.",),
            facts=(f"{len(messages)} messages about ORD-1042 and failing reports were summarised.",),
        )


def conversation(output_lines=1):
    """A short support case with a constraint, a decision, tools, a protected message and an aborted turn."""
    messages = [
        {"role": "system", "content": "You are a support agent for an online shop."},
        {"role": "user", "content": "Order ORD-1042 never arrived. Never refund more than 50 EUR without asking me."},
        *tool_pair(1, '{"order_id": "ORD-1042", "status": "lost", "carrier": "DHL"}'),
        {
            "role": "assistant",
            "content": "The carrier lost ORD-1042. I decided to resend it because a refund is over 50 EUR.",
        },
        {"role": "developer", "content": "Answer in one paragraph.", "meta": {"protected": True}},
    ]
    for number in range(2, 8):
        messages += [
            {"role": "user", "content": f"Next, check src/orders/report_{number}.py and tell me what fails."},
            *tool_pair(
                number,
                f"FAILED tests/test_report_{number}.py::test_total - AssertionError: {number} != 17\n" * output_lines,
            ),
            {
                "role": "assistant",
                "content": f"test_total fails in report_{number}.py: {number} != 17. TODO: fix the sum.",
            },
        ]
    return [*messages, {"role": "user", "content": "What is still open?"}]


def render(renderer, output_lines=1, **options):
    policy = CompactPolicy(renderer=renderer, keep_recent_turns=1, keep_tool_io_pairs=1, **options.pop("policy", {}))
    manager = CompactManager(CompactConfig("gpt-5", 128_000, policy=policy, summarizer=Told(), **options))
    return manager, manager.manual_compact("s", conversation(output_lines))


def rendered_with_told_summary(manager):
    """The plan rendered with a summary whose words are fixed, so that only the shape can change the golden."""
    session = manager._session("s")
    shape = get_renderer(session.plan.renderer)
    told = Told()
    spans = tuple(
        replace(record, summary=told.summarize_span(record.span.message_ids, style="task_state", max_tokens=0))
        for record in session.plan.summarizations
    )
    text = session.plan.summary_text and shape.summary_text(
        told.summarize_span([], style="task_state", max_tokens=0), 1
    )
    plan = replace(session.plan, summarizations=spans, summary_text=text)
    return shape.render(session.view, plan, get_codec("chat"))


@pytest.mark.req("D-REND-1", "S-LAY-1", "R-HIST-1")
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge", "externalized"])
def test_golden_prompts(renderer):
    """The rendered prompt is exactly the reviewed one."""
    if renderer == "externalized":
        policy = {"externalize_threshold_tokens": 200, "ladder": ("externalize",)}
        manager, _ = render("inplace", 12, artifact_store=MemoryArtifactStore(), policy=policy)
    else:
        manager, _ = render(renderer)
    out = [message.source for message in rendered_with_told_summary(manager)]
    golden = GOLDENS / f"{renderer}.json"
    text = json.dumps(out, indent=1, ensure_ascii=False) + "\n"
    if not golden.exists():
        golden.write_text(text)
        pytest.fail(f"{golden.name} was missing and has been written: review it and run again")
    assert text == golden.read_text()


@pytest.mark.req("D-REND-1")
def test_in_place_summaries_stand_where_their_span_began():
    """One assistant message per span at the place of its first message, with turns in its first line."""
    _, out = render("inplace")
    assert out[1]["role"] == "assistant"
    assert out[1]["content"].startswith("[Context Summary - Turns 1-6]\n[Summary v1.0")
    assert out[2] == conversation()[5]


def compacted_twice(**options):
    """A conversation compacted in place, gone on with and compacted again."""
    manager, first = render("inplace", **options)
    more = [{**item, "content": f"{item['content']} Again."} for item in conversation() if item["role"] != "tool"]
    more = [item for item in more[1:] if "tool_calls" not in item]
    return first, manager.manual_compact("s", [*conversation(), *more])


@pytest.mark.req("D-REND-1")
def test_spans_in_place_tell_the_turns_of_the_whole_conversation():
    """Turns are counted from the beginning of the conversation, not from the last compaction."""
    _, out = compacted_twice()
    spans = [item["content"].partition("\n")[0] for item in out if str(item["content"]).startswith("[Context Summary")]
    assert spans == ["[Context Summary - Turns 1-6]", "[Context Summary - Turns 7-14]"]


@pytest.mark.req("D-REND-1")
def test_an_earlier_span_in_place_stays_as_it_was():
    """A second span stands beside the first, which keeps its bytes and so the provider's cache."""
    first, second = compacted_twice()
    assert second[: len(first[:3])] == first[:3]


class Forgetful:
    """Document 000's summariser, one that keeps nothing."""

    def summarize(self, messages, style, keep_keys):
        return Message("assistant", f"There were {len(messages)} messages.")


@pytest.mark.req("D-REND-1", "D-SUM-1")
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
def test_a_standing_instruction_that_the_summary_lost_is_in_the_prompt(renderer):
    """What the guard puts back is shown, whatever the shape."""
    policy = CompactPolicy(renderer=renderer, keep_recent_turns=1, keep_tool_io_pairs=1, user_message_tokens=0)
    manager = CompactManager(CompactConfig("gpt-5", 128_000, policy=policy, summarizer=Forgetful()))
    out = manager.manual_compact("s", conversation())
    assert any("Never refund more than 50 EUR" in str(item["content"]) for item in out if item["role"] == "assistant")


@pytest.mark.req("R-USER-1", "C-SUM-2")
def test_the_bridge_keeps_the_users_own_words():
    """User messages are kept newest first within their limit, restated before the summary that hands over."""
    _, out = render("bridge")
    users = [item["content"] for item in out if item["role"] == "user"]
    assert users == [item["content"] for item in conversation() if item["role"] == "user"]
    summary = next(item["content"] for item in out if str(item["content"]).startswith("<COMPACT-SUMMARY"))
    assert "Another language model started this task" in summary
    _, short = render("bridge", policy={"user_message_tokens": 40})
    kept = [item["content"] for item in short if item["role"] == "user"]
    assert kept == users[-len(kept) :]
    assert 1 <= len(kept) < len(users)


@pytest.mark.req("R-HIST-1", "R-USER-1")
def test_the_compacted_history_has_four_parts():
    """Initial context, user messages without old summaries, the summary, protected tools."""
    messages = [Message("user", "one"), Message("user", "<COMPACT-SUMMARY v1> old"), Message("user", "two " * 50)]
    texts = collect_user_messages(messages)
    assert texts == ["one", "two " * 50]
    count = TiktokenEstimator().count_tokens
    assert select_user_messages(texts, 51, count) == ["two " * 50]
    built = build_compacted_history([Message("system", "s")], texts, "sum", [Message("tool", "todo", tool_call_id="t")])
    assert [message.role for message in built] == ["system", "user", "user", "assistant", "tool"]
