"""Message formats: decoding, grouping, normalization and edge cases."""

from __future__ import annotations

import json

import pytest
from compact import CompactConfig, CompactManager, CompactPolicy, Message, TiktokenEstimator, ToolCall
from compact.exceptions import MalformedMessage
from compact.messages.codecs import detect_codec, get_codec
from compact.messages.normalization import ensure_call_outputs_present, normalize, remove_orphan_outputs
from compact.messages.units import group_units
from langchain_core.messages import convert_to_messages
from strategies import FORMATS, Step, write

CALLS = [
    ("function_call", {"name": "f", "arguments": "{}"}, "function_call_output", {"output": "x"}),
    ("custom_tool_call", {"name": "f", "input": "text"}, "custom_tool_call_output", {"output": "x"}),
    ("shell_call", {"action": {"commands": ["ls"]}}, "shell_call_output", {"output": [{"stdout": "x"}]}),
    ("computer_call", {"action": {"type": "click"}}, "computer_call_output", {"output": {"image_url": "data:"}}),
    ("apply_patch_call", {"operation": {"type": "create"}}, "apply_patch_call_output", {"status": "completed"}),
    ("tool_search_call", {"arguments": "{}"}, "tool_search_output", {"tools": []}),
]


@pytest.mark.req("R-PAIR-1")
@pytest.mark.parametrize(("call", "fields", "output", "result"), CALLS)
def test_call_and_output_are_one_unit(call, fields, output, result):
    """Reasoning, a call of any type and its output form one unit, and a missing output is added in the right type."""
    codec = get_codec("responses")
    items = [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": call, "call_id": "c1", **fields},
        {"type": output, "call_id": "c1", **result},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    ]
    messages = [codec.decode(item, place) for place, item in enumerate(items)]
    assert [unit.indices for unit in group_units(messages)] == [(0,), (1, 2, 3), (4,)]
    repaired = normalize([*messages[:3], messages[4]], codec).messages
    assert repaired[3].source["type"] == output
    assert not normalize(repaired, codec).is_changed
    assert [codec.encode(message) for message in messages] == items


def test_provider_compaction_items_are_pinned_and_unknown_items_stay_attached():
    """An item of an unknown type belongs to the unit before it."""
    codec = get_codec("responses")
    items = [
        {"type": "compaction", "encrypted_content": "x" * 600},
        {"role": "user", "content": "one"},
        {"type": "hologram", "data": 1},
        *[
            {"role": role, "content": f"{role} {n} " + "word " * 30}
            for n in range(20)
            for role in ("assistant", "user")
        ],
    ]
    messages = [codec.decode(item, place) for place, item in enumerate(items)]
    assert group_units(messages)[1].indices == (1, 2)
    manager = CompactManager(CompactConfig("gpt-5", 50_000))
    out = manager.manual_compact("s", items)
    assert out[0] == items[0]
    assert items[1] not in out
    assert items[2] not in out


def test_parallel_calls_with_a_shared_result_message_are_one_unit():
    """A message that answers two calls joins them into one unit, and an orphaned result is removed from it."""
    codec = get_codec("anthropic")
    items = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "2"}]},
                {"type": "text", "text": "go on"},
            ],
        },
    ]
    messages = [codec.decode(item, place) for place, item in enumerate(items)]
    assert len(group_units(messages)) == 1
    assert messages[2].answers == ("a", "b")
    assert "go on" in messages[2].text
    orphaned = normalize(messages[1:], codec).messages
    assert [block.get("tool_use_id") for block in orphaned[1].source["content"]] == ["b", None]


def test_anthropic_prompt_starts_with_a_user_message():
    """The API rejects a conversation that starts with the assistant, so a user message precedes the summary."""
    block = {"type": "text", "text": "word " * 40}
    items = [{"role": role, "content": [dict(block)]} for _ in range(30) for role in ("user", "assistant")]
    items[1]["content"].append({"type": "tool_use", "id": "a", "name": "f", "input": {}})
    items.insert(2, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]})
    manager = CompactManager(CompactConfig("claude-opus-4-5", 2000, policy=CompactPolicy(hard_cap_buffer=100)))
    out = manager.preflight("s", items)
    assert out[0]["role"] == "user"
    assert out[1]["content"].startswith("<COMPACT-SUMMARY v1>")
    assert manager.preflight("s", [*out, {"role": "user", "content": "next"}])[:-1] == out


@pytest.mark.req("P-EDGE-1")
@pytest.mark.parametrize(
    ("fmt", "item"),
    [
        ("chat", {"role": "tool", "content": "x"}),
        ("chat", {"role": "assistant", "tool_calls": "oops"}),
        ("chat", {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}),
        ("responses", {"type": "function_call", "name": "f", "arguments": "{}"}),
        ("responses", {"type": "function_call_output", "output": "x"}),
        ("anthropic", {"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}),
        ("anthropic", {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}),
        ("chat", "just a string"),
    ],
)
def test_malformed_item_is_reported_with_its_index(fmt, item):
    """An item that no provider would accept raises `MalformedMessage`."""
    with pytest.raises(MalformedMessage, match=r"messages\[3\]"):
        get_codec(fmt).decode(item, 3)


def test_format_is_detected():
    """Each format has its own fields. Plain text messages are valid in all of them."""
    assert detect_codec([{"role": "user", "content": "x"}]) is None
    assert detect_codec([{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a"}]).name == "chat"
    assert detect_codec([{"type": "function_call", "call_id": "c"}]).name == "responses"
    assert detect_codec([{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]).name == "responses"
    assert (
        detect_codec([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]).name == "anthropic"
    )


def test_blocks_of_several_formats_show_none():
    """`input_audio` is a part of chat messages, and Anthropic has a block with the name of an item of Responses."""
    audio = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
    assert detect_codec([{"role": "user", "content": [{"type": "text", "text": "x"}, audio]}]) is None
    assert detect_codec([{"role": "assistant", "content": [{"type": "compaction", "content": "x"}]}]) is None
    assert detect_codec([{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]).name == "responses"


def test_images_are_counted():
    """An image adds tokens in every format."""
    chat = {
        "role": "user",
        "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "u"}}],
    }
    responses = {
        "role": "user",
        "content": [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "u"}],
    }
    anthropic = {"role": "user", "content": [{"type": "image", "source": {}}, {"type": "text", "text": "x"}]}
    for fmt, item in (("chat", chat), ("responses", responses), ("anthropic", anthropic)):
        assert TiktokenEstimator().count_message(get_codec(fmt).decode(item, 0), "gpt-5") > 500
        assert json.dumps(get_codec(fmt).encode(get_codec(fmt).decode(item, 0))) == json.dumps(item)


@pytest.mark.req("R-NORM-1")
def test_missing_and_orphaned_outputs_can_be_repaired_separately():
    """One function adds missing outputs, the other removes orphaned ones."""
    call = Message("assistant", "", tool_calls=(ToolCall("a", "run"),))
    orphan = Message("tool", "late", tool_call_id="gone")
    assert [message.text for message in ensure_call_outputs_present([orphan, call])] == ["late", "", "aborted"]
    assert remove_orphan_outputs([orphan, call]) == [call]


@pytest.mark.req("R-NORM-1", "R-PAIR-1")
@pytest.mark.parametrize("fmt", [*FORMATS, "langchain"])
def test_an_added_output_follows_its_own_call(fmt):
    """The next response may have calls too. Items of Responses and messages of Anthropic may be of one response."""
    conversation = [
        Step("user", "Go."),
        Step("tools", calls=[("f", "A")]),
        Step("tools", calls=[("f", "B")], answered=1),
    ]
    items = write(conversation, "chat" if fmt == "langchain" else fmt)
    if fmt == "langchain":
        items = [message.model_dump(mode="json") for message in convert_to_messages(items)]
    codec = get_codec(fmt)
    normal = normalize([codec.decode(item, index) for index, item in enumerate(items)], codec)
    called = [message.answers or tuple(call.id for call in message.tool_calls) for message in normal.messages[1:]]
    first, second = ("c1-0",), ("c2-0",)
    assert called == ([first, second] * 2 if fmt in ("responses", "anthropic") else [first, first, second, second])
    assert not normalize(normal.messages, codec).is_changed


def test_a_thinking_response_comes_after_the_outputs_of_the_one_before():
    codec = get_codec("anthropic")
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    calls = [{"type": "tool_use", "id": name, "name": "f", "input": {}} for name in ("a", "b")]
    items = [{"role": "assistant", "content": [thought, call]} for call in calls]
    normal = normalize([codec.decode(item, index) for index, item in enumerate(items)], codec)
    assert [message.role for message in normal.messages] == ["assistant", "tool"] * 2


@pytest.mark.req("R-NORM-1", "R-PAIR-1")
def test_added_anthropic_result_comes_before_the_user_text():
    """The API merges consecutive user messages and requires tool results to come first."""
    items = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in "ab"]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "A"}, {"type": "text", "text": "And?"}],
        },
    ]
    out = CompactManager(CompactConfig("claude-sonnet-4", 200_000)).preflight("s", items)
    blocks = [block for item in out[2:] for block in item["content"]]
    assert [block["type"] for block in blocks] == ["tool_result", "tool_result", "text"]


@pytest.mark.req("P-EDGE-1")
@pytest.mark.parametrize(
    "item",
    [
        {"role": ["user"], "content": "a role that is not a string"},
        {"type": ["message"], "content": "a type that is not a string"},
        {"role": "user", "content": [{"type": ["text"], "text": "x"}]},
        {"role": "user", "name": 5, "content": "a name that is not a string"},
        {"type": "message", "role": {"is": "user"}, "content": "x"},
        {"type": "reasoning", "id": "rs", "encrypted_content": 5},
        {"type": "compaction", "encrypted_content": ["x"]},
    ],
)
def test_invalid_item_is_passed_through_unchanged(item):
    """An item with fields of the wrong type does not fail the call and is sent unchanged."""
    items = [{"role": "user", "content": "Look."}, item, {"role": "user", "content": "And now?"}]
    manager = CompactManager(CompactConfig("gpt-5", 128_000))
    assert manager.preflight("s", items) == items
    assert item in manager.manual_compact("s", items)
