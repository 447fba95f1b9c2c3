"""Three formats and their corner cases."""

from __future__ import annotations

import json

import pytest
from compact import CompactConfig, CompactManager, CompactPolicy, Message, ToolCall
from compact.exceptions import MalformedMessage
from compact.messages.codecs import detect_codec, get_codec
from compact.messages.normalization import ensure_call_outputs_present, normalize, remove_orphan_outputs
from compact.messages.units import group_units

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
def test_every_kind_of_call_is_one_unit_with_its_output(call, fields, output, result):
    """Reasoning, a call of any kind and its output are kept or removed together."""
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


def test_sealed_and_unknown_items():
    """A provider's compaction item is pinned; an item nobody knows stays with its neighbour."""
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


def test_parallel_calls_and_late_outputs():
    """Parallel calls are one unit; an output that comes late belongs to its call; one message may answer two."""
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


def test_anthropic_conversations_open_with_the_user():
    """A layered Anthropic prompt never opens with the assistant's summary."""
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
def test_malformed_items_are_named(fmt, item):
    """What no provider would take is refused with its place in the list."""
    with pytest.raises(MalformedMessage, match=r"messages\[3\]"):
        get_codec(fmt).decode(item, 3)


def test_formats_are_told_apart():
    """Each format is recognised by its own marks; plain messages read the same in all."""
    assert detect_codec([{"role": "user", "content": "x"}]) is None
    assert detect_codec([{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a"}]).name == "chat"
    assert detect_codec([{"type": "function_call", "call_id": "c"}]).name == "responses"
    assert detect_codec([{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]).name == "responses"
    assert (
        detect_codec([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]).name == "anthropic"
    )


def test_pictures_weigh_something():
    """An image is counted though it has no text, in every format."""
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
        assert get_codec(fmt).decode(item, 0).extra_tokens > 500
        assert json.dumps(get_codec(fmt).encode(get_codec(fmt).decode(item, 0))) == json.dumps(item)


@pytest.mark.req("R-NORM-1")
def test_each_half_of_the_repair_can_be_had_alone():
    """A call without output and an output without call: each function mends one of them."""
    call = Message("assistant", "", tool_calls=(ToolCall("a", "run"),))
    orphan = Message("tool", "late", tool_call_id="gone")
    assert [message.text for message in ensure_call_outputs_present([orphan, call])] == ["late", "", "aborted"]
    assert remove_orphan_outputs([orphan, call]) == [call]


@pytest.mark.req("R-NORM-1", "R-PAIR-1")
def test_an_anthropic_result_that_was_added_comes_before_the_users_words():
    """Consecutive user messages are one to the provider, and in it results come first."""
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
        {"role": ["user"], "content": "a role that is no word"},
        {"type": ["message"], "content": "a type that is no word"},
        {"role": "user", "content": [{"type": ["text"], "text": "x"}]},
        {"role": "user", "name": 5, "content": "a name that is no text"},
        {"type": "message", "role": {"is": "user"}, "content": "x"},
        {"type": "reasoning", "id": "rs", "encrypted_content": 5},
        {"type": "compaction", "encrypted_content": ["x"]},
    ],
)
def test_an_item_that_makes_no_sense_goes_through_as_it_is(item):
    """Whatever a host made of an item, the call goes on and the item is sent as it came."""
    items = [{"role": "user", "content": "Look."}, item, {"role": "user", "content": "And now?"}]
    manager = CompactManager(CompactConfig("gpt-5", 128_000))
    assert manager.preflight("s", items) == items
    assert item in manager.manual_compact("s", items)
