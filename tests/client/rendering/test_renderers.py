"""Renderers: golden prompts and the properties of each layout.

To regenerate a golden file, delete it, run the test, and review the diff.
"""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import compact
import pytest
from builders import tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy, Message, TiktokenEstimator, rendering
from compact.adapters.artifact_stores import MemoryArtifactStore
from compact.messages.codecs import get_codec
from compact.policy import RendererName
from compact.rendering import get_renderer
from compact.rendering.bridge import build_compacted_history, collect_user_messages, select_user_messages
from compact.rendering.layered import LayeredRenderer
from compact.summary.structured_summary import StructuredSummary

GOLDENS = Path(__file__).parents[2] / "goldens" / "prompts"


class FixedSummarizer:
    """A span summarizer with a fixed text, so that goldens depend only on the layout."""

    def summarize_span(self, messages, *, style, keep_keys=(), max_tokens, visible=(), count_tokens=None):
        return StructuredSummary(
            style=style,
            constraints=("Never refund more than 50 EUR without asking.",),
            facts=(f"{len(messages)} messages about ORD-1042 and failing reports were summarized.",),
        )


def conversation(output_lines=1):
    """A short support case with a constraint, a decision, tool calls and a protected message."""
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
    """Compact the support case with a renderer and return the manager and the prompt."""
    policy = CompactPolicy(renderer=renderer, keep_recent_turns=1, keep_tool_io_pairs=1, **options.pop("policy", {}))
    manager = CompactManager(CompactConfig("gpt-5", 128_000, policy=policy, summarizer=FixedSummarizer(), **options))
    return manager, manager.manual_compact("s", conversation(output_lines))


def render_with_fixed_summary(manager):
    """Render the session's plan with the summaries of `FixedSummarizer`."""
    session = manager._session("s")
    renderer = get_renderer(session.plan.renderer)
    summarizer = FixedSummarizer()
    spans = tuple(
        replace(record, summary=summarizer.summarize_span(record.span.message_ids, style="task_state", max_tokens=0))
        for record in session.plan.summarizations
    )
    text = session.plan.summary_text and renderer.summary_text(
        summarizer.summarize_span([], style="task_state", max_tokens=0), 1
    )
    plan = replace(session.plan, summarizations=spans, summary_text=text)
    return renderer.render(session.view, plan, get_codec("chat"))


@pytest.mark.req("D-REND-1", "S-LAY-1", "R-HIST-1")
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge", "externalized"])
def test_rendered_prompt_matches_the_golden_file(renderer):
    """The rendered prompt equals the reviewed golden file."""
    if renderer == "externalized":
        policy = {"externalize_threshold_tokens": 200, "ladder": ("externalize",)}
        manager, _ = render("inplace", 12, artifact_store=MemoryArtifactStore(), policy=policy)
    else:
        manager, _ = render(renderer)
    out = [message.source for message in render_with_fixed_summary(manager)]
    golden = GOLDENS / f"{renderer}.json"
    text = json.dumps(out, indent=1, ensure_ascii=False) + "\n"
    if not golden.exists():
        golden.write_text(text)
        pytest.fail(f"{golden.name} was missing and has been written. Review it and run the test again.")
    assert text == golden.read_text()


@pytest.mark.req("D-REND-1")
def test_inplace_summary_is_at_the_start_of_its_span():
    """An assistant message with the turns in its first line replaces each span."""
    _, out = render("inplace")
    assert out[1]["role"] == "assistant"
    assert out[1]["content"].startswith("[Context Summary - Turns 1-6]\n[Summary v1.0")
    assert out[2]["content"] == conversation()[5]["content"]


def compact_twice(**options):
    """Compact a conversation in place, continue it, and compact it again."""
    manager, first = render("inplace", **options)
    more = [{**item, "content": f"{item['content']} Again."} for item in conversation() if item["role"] != "tool"]
    more = [item for item in more[1:] if "tool_calls" not in item]
    return first, manager.manual_compact("s", [*conversation(), *more])


@pytest.mark.req("D-REND-1")
def test_inplace_spans_count_turns_from_the_start():
    """Turn numbers continue after the first compaction."""
    _, out = compact_twice()
    spans = [item["content"].partition("\n")[0] for item in out if str(item["content"]).startswith("[Context Summary")]
    assert spans == ["[Context Summary - Turns 1-6]", "[Context Summary - Turns 7-14]"]


@pytest.mark.req("D-REND-1")
def test_earlier_inplace_span_is_unchanged():
    """A second span does not change the bytes of the first, which keeps the provider's cache valid."""
    first, second = compact_twice()
    assert second[: len(first[:3])] == first[:3]


class ForgetfulSummarizer:
    """A `Summarizer` that keeps nothing of the messages."""

    def summarize(self, messages, style, keep_keys):
        return Message("assistant", f"There were {len(messages)} messages.")


@pytest.mark.req("D-REND-1", "D-SUM-1")
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
def test_standing_instruction_missing_from_the_summary_is_restored(renderer):
    """The prompt of every renderer contains a standing instruction that the summarizer left out."""
    policy = CompactPolicy(renderer=renderer, keep_recent_turns=1, keep_tool_io_pairs=1, user_message_tokens=0)
    manager = CompactManager(CompactConfig("gpt-5", 128_000, policy=policy, summarizer=ForgetfulSummarizer()))
    out = manager.manual_compact("s", conversation())
    assert any("Never refund more than 50 EUR" in str(item["content"]) for item in out if item["role"] == "assistant")


@pytest.mark.req("R-USER-1", "C-SUM-2")
def test_bridge_keeps_user_messages():
    """The newest user messages within the limit come before the handover summary."""
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
def test_compacted_history_has_four_parts():
    """Initial context, user messages without earlier summaries, the summary, and protected tools."""
    messages = [Message("user", "one"), Message("user", "<COMPACT-SUMMARY v1> old"), Message("user", "two " * 50)]
    texts = collect_user_messages(messages)
    assert texts == ["one", "two " * 50]
    count = TiktokenEstimator().count_tokens
    assert select_user_messages(texts, 51, count) == ["two " * 50]
    (task,) = select_user_messages(["one " * 400], 100, count)
    assert task.startswith("one one") and task.strip().endswith("one one")
    assert " tokens truncated…" in task and 70 < count(task) <= 100
    built = build_compacted_history([Message("system", "s")], texts, "sum", [Message("tool", "todo", tool_call_id="t")])
    assert [message.role for message in built] == ["system", "user", "user", "assistant", "tool"]


def test_the_name_of_a_renderer_is_tested_only_in_its_package():
    """All other code asks the renderer. A new one is a module and a row in `compact.rendering`."""
    source = Path(compact.__file__).parent
    names = set(get_args(RendererName))
    compared = []
    for path in source.rglob("*.py"):
        if path.is_relative_to(source / "rendering"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            constants = {leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
            if isinstance(node, ast.Compare | ast.MatchValue) and names.intersection(map(str, constants)):
                compared.append(f"{path.relative_to(source)}:{node.lineno}")
    assert compared == []
    assert all(get_renderer(name).name == name for name in names)


def test_a_new_renderer_needs_only_its_registration(monkeypatch):
    """Two tenants under a renderer that puts each span's summary into one message at the end."""

    class LastRenderer(LayeredRenderer):
        name = "last"

        def render(self, messages, plan, codec):
            shown = super().render(messages, replace(plan, summary_text=None), codec)
            summary = codec.assistant_message(plan.summary_text, plan.summary_id)
            return [*shown[:-1], summary, shown[-1]]

    monkeypatch.setitem(rendering._BY_NAME, "last", LastRenderer())
    policy = CompactPolicy(keep_recent_turns=1, keep_tool_io_pairs=1)
    object.__setattr__(policy, "renderer", "last")
    manager = CompactManager(CompactConfig("gpt-5", 128_000, policy=policy, summarizer=FixedSummarizer()))
    for tenant in ("acme", "globex"):
        history = [{"role": "user", "content": f"The code word is WORD-{tenant}."}, *conversation(1)]
        prompt = manager.manual_compact(tenant, history)
        assert prompt[-2]["content"].startswith("<COMPACT-SUMMARY")
        assert manager.plan(tenant).renderer == "last"
        assert {entry.into for entry in manager.plan(tenant).ledger if entry.fate == "summarized"} == {"summary-v1"}
    assert "WORD-acme" not in str(prompt)
