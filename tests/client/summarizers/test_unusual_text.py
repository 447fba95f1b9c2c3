"""The built-in summarizer reads any text. An exception would cost the summary of the whole span."""

from __future__ import annotations

import json

import pytest
from compact.messages import Message, ToolCall
from compact.summarizers import ExtractiveSummarizer, retention
from compact.summary.structured_summary import StructuredSummary
from hypothesis import given, settings
from hypothesis import strategies as st

LONG_SENTENCE = "部署服务时" * 30 + "。"
UNUSUAL = (
    *(
        "\r",
        "\r\n",
        "\n",
        "\n",
        "\t",
        "\0",
        "\x1b[31m",
        "\ud800",
        "\u2028",
        "İ",
        "²",
        "٣",
        "🙂",
        "```\n",
        '"',
        "'",
        "`",
    ),
    *("name,size,kind\n1,2,3\n4,5,6\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "NAME  STATUS  AGE\nx  y  z\n", ","),
    *('{"id": 1e999}', '{"id": NaN}', "[" * 200, '[{"id":"a1","x":[1,2]},{"id":"a2"}]\n', "id: ab-12\nname: x\n", ": "),
    *(
        "- item\n",
        "1. item\n",
        "- [x] done\n",
        "<tag>",
        "<system-reminder>",
        "://",
        "a::b",
        "C:\\Users\\x",
        "9" * 5_000,
    ),
    *(
        LONG_SENTENCE,
        "word " * 40,
        "Always use x. ",
        "TODO ",
        "Error: x\n",
        "3 passed, 1 failed in 0.2s\n",
        "src/a.py:1:",
    ),
    *("<COMPACT-SUMMARY v1>\n", "[Context Summary - Turns 1-2]", "REDACTED_1_001", "@@ -1,2 +1,2 @@\n", "+x\n", "-y\n"),
)
ARGUMENTS = (
    *("", "null", "[]", "not json", '{"command": null}', '{"path": 5}', '{"command": ["ls"], "description": 5}'),
    *('{"todos": [1, null, {"content": 5, "status": []}]}', '{"edits": [{"old_string": "a", "new_string": "b"}, 3]}'),
    *('{"path": "a.py", "old_str": "x", "new_str": {"a": 1}}', '{"a": 1e999}', '{"id": "ab-12"}'),
)
texts = st.lists(st.sampled_from(UNUSUAL), max_size=20).map("".join)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = []
    for number in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(("bash", "edit", "write", "todo_write", "manage_todo_list", "apply_patch")))
        call = ToolCall(f"c{number}", name, draw(st.sampled_from(ARGUMENTS) | texts))
        messages += [
            Message("user", draw(texts), id=f"u{number}"),
            Message("assistant", draw(texts), tool_calls=(call,), id=f"a{number}"),
            Message("tool", draw(texts), tool_call_id=call.id, id=f"t{number}"),
        ]
    return messages


@settings(max_examples=60)
@given(conversations(), st.sampled_from((0, 20, 2_000)), st.sampled_from(("task_state", "decision_log", "code_delta")))
def test_any_text_can_be_summarized_checked_stored_and_continued(messages, max_tokens, style):
    """Nothing raises, and a stored summary is read back unchanged."""
    removed, visible = messages[:-2], messages[-2:]
    summarizer = ExtractiveSummarizer()
    summary = summarizer.summarize_span(removed, visible=visible, style=style, max_tokens=max_tokens)
    assert StructuredSummary.from_dict(json.loads(json.dumps(summary.to_dict()))) == summary
    rendered = [*visible, Message("assistant", summary.render(version=1))]
    retention.restore_lost_facts(removed, rendered, summary, max_tokens=max_tokens)
    summarizer.summarize_span(visible, previous=summary, style=style, max_tokens=max_tokens)


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("name,size,kind\nx,1\r2,3,a\ny,2,b\n", id="carriage return of a progress bar"),
        pytest.param(f"name,size,kind\n{'x' * 140_000},2,3\ny,2,b\n", id="field above the limit of the csv module"),
        pytest.param(f"{LONG_SENTENCE}\n- 8080\n- 8081", id="list after a long Chinese sentence"),
    ],
)
def test_one_unusual_tool_output_does_not_cost_the_summary(output):
    """The other lines of the span are still summarized."""
    messages = [
        Message("user", "Always deploy to region eu-west-3.", id="u"),
        Message("assistant", output, tool_calls=(ToolCall("c", "run", "{}"),), id="a"),
        Message("tool", output, tool_call_id="c", id="t"),
    ]
    summary = ExtractiveSummarizer().summarize_span(messages, max_tokens=400)
    assert "Always deploy to region eu-west-3." in summary.render()
