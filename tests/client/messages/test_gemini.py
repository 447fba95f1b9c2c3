"""Gemini contents: reading, pairing, repairs and media."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from compact import CompactConfig, CompactManager, CompactPolicy, Message
from compact.engine.session.request import read_items
from compact.estimators.media_tokens import media_tokens
from compact.messages.block_kinds import Content
from compact.messages.codecs import detect_codec, get_codec
from compact.messages.codecs.base import ABORTED
from compact.messages.normalization import normalize
from compact.messages.units import group_units
from compact.reading.parts import read_parts, spoken_text

CODEC = get_codec("gemini")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
LARGE_PNG = PNG.rstrip("=") + "A" * 400
GO = {"role": "user", "parts": [{"text": "go"}]}


def call(name: str = "read", **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"path": "a.py"}, **fields}, "thoughtSignature": "CiQB" * 30}


def response(name: str = "read", text: str = "17 rows", **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": text}, **fields}}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def decode(*items: Any) -> list[Message]:
    """Return messages as a session reads them."""
    read = read_items(CODEC, items, range(len(items)))
    return [replace(message, id=f"m{index}") for index, _, message in read]


def test_a_content_is_read_and_written_unchanged() -> None:
    parts = [{"text": "Hm.", "thought": True}, {"text": "I read."}, call(id="c1"), call("run", id="c2")]
    message = CODEC.decode(model(*parts), 0)
    assert (message.role, message.text, [item.id for item in message.tool_calls]) == (
        "assistant",
        "Hm.\nI read.",
        ["c1", "c2"],
    )
    assert message.tool_calls[0].arguments == '{"path": "a.py"}'
    assert message.extra_tokens == 40, "signatures are charged as input"
    assert CODEC.encode(message) is message.source


@pytest.mark.parametrize(
    "item", [GO, model(call()), user(response()), model({"executableCode": {"language": "PYTHON", "code": "1"}})]
)
def test_contents_are_recognized(item: Any) -> None:
    codec = detect_codec([item])
    assert codec is not None
    assert codec.name == "gemini"


@pytest.mark.parametrize(
    "item", [{"role": "user", "parts": [{"type": "text", "text": "x"}]}, {"role": "user", "parts": [{"kind": "text"}]}]
)
def test_parts_of_other_formats_are_not_recognized(item: Any) -> None:
    assert detect_codec([item]) is None


def test_calls_without_ids_are_paired_by_name_and_order() -> None:
    """A stopped call of an earlier turn is not answered by the response to a later call of the same function."""
    items = [GO, model(call()), user({"text": "wait"}), model(call(), call()), user(response(), response(text="9"))]
    messages = decode(*items)
    assert [unit.indices for unit in group_units(messages)] == [(0,), (1,), (2,), (3, 4)]
    repaired = normalize(messages, CODEC).messages
    assert [message.role for message in repaired] == [
        "user", "assistant", "tool", "assistant", "user", "assistant", "tool",
    ]  # fmt: skip
    assert repaired[2].text == ABORTED


def test_a_response_without_an_id_answers_the_call_before_it() -> None:
    """The helpers of the Python SDK leave the id out."""
    messages = decode(GO, model(call(id="c1"), call("run", id="c2")), user(response("run"), response("read")))
    assert messages[2].answers == ("c2", "c1")
    assert not normalize(messages, CODEC).is_changed


def test_the_output_of_a_stopped_call_is_in_the_message_with_the_others() -> None:
    messages = decode(GO, model(call(id="c1"), call(id="c2")), user(response(id="c1"), {"text": "stop"}))
    (_, _, answer) = normalize(messages, CODEC).messages
    assert answer.answers == ("c1", "c2")
    assert answer.source is not None
    aborted = {"functionResponse": {"name": "read", "id": "c2", "response": {"error": ABORTED}}}
    assert answer.source["parts"] == [response(id="c1"), aborted, {"text": "stop"}]


def test_keys_of_the_python_sdk_are_read_and_kept() -> None:
    image = {"inline_data": {"mime_type": "image/png", "data": PNG}}
    items = [
        user({"text": "go"}, image),
        model({"function_call": {"id": "c1", "name": "read", "args": {}}, "thought_signature": "CiQB"}),
        user({"function_response": {"id": "c1", "name": "read", "response": {"result": "long " * 50}}}),
    ]
    messages = decode(*items)
    assert [media.kind for media in messages[0].media] == ["image"]
    assert messages[1].tool_calls[0].id == messages[2].tool_call_id == "c1"
    short = CODEC.map_outputs(messages[2], lambda call_id, text: text[:4])
    assert short.source == user({"function_response": {"id": "c1", "name": "read", "response": {"result": "long"}}})


def test_shortening_keeps_media_signatures_and_other_fields() -> None:
    media = {"parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}
    result = {"functionResponse": {"name": "read", "response": {"stdout": "x" * 90, "exit_code": 0}, **media}}
    message = CODEC.decode(user(result), 0)
    assert [media_tokens(item, "gemini-3-pro") for item in message.media] == [258]
    short = CODEC.map_outputs(message, lambda call_id, text: "cut")
    assert short.source == user({"functionResponse": {"name": "read", "response": {"output": "cut"}, **media}})
    assert short.media == message.media
    signed = CODEC.decode(model({"text": "a long answer", "thoughtSignature": "CiQB"}, {"text": "short"}), 0)
    cut = CODEC.map_text(signed, lambda text: "cut")
    assert cut.source == model({"text": "a long answer", "thoughtSignature": "CiQB"}, {"text": "cut"})


def test_tools_of_the_provider_stay_with_their_results() -> None:
    """Base64 in a result is counted as a picture."""
    tool = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t1"}}
    result = {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t1", "response": {"image": LARGE_PNG}}}
    messages = decode(GO, model(tool), GO, model(result))
    assert [unit.indices for unit in group_units(messages)] == [(0,), (1, 3), (2,)]
    assert [media.kind for media in messages[3].media] == ["image"]
    assert LARGE_PNG not in messages[3].text


@pytest.mark.parametrize("renderer", ["layered", "bridge", "inplace"])
def test_a_compacted_history_alternates(renderer: str) -> None:
    policy = CompactPolicy(renderer=renderer, keep_recent_turns=1, keep_tool_io_pairs=1, hard_cap_buffer=100)
    manager = CompactManager(CompactConfig("gemini-3-pro", 3_000, policy=policy))
    items = [GO]
    for number in range(30):
        name = f"c{number}"
        items += [model(call(id=name)), user(response(id=name, text=f"row {number} " * 60))]
    prompt = manager.preflight("s", items)
    assert len(prompt) < len(items)
    assert [item["role"] for item in prompt] == (["user", "model"] * len(prompt))[: len(prompt)]
    assert prompt[-1] == items[-1]
    assert prompt[-2] == items[-2], "calls keep their signatures"


def test_people_read_the_parts_of_a_content() -> None:
    content = model({"text": "Hm.", "thought": True}, {"text": "I read."}, call(id="c1"))
    assert spoken_text(CODEC.decode(content, 0)) == "I read."
    assert [(part.kind, part.name, part.call_id) for part in read_parts(content)] == [
        (Content.REASONING, "", ""),
        (Content.TEXT, "", ""),
        (Content.CALL, "read", "c1"),
    ]
    (part,) = read_parts(user(response(id="c1")))
    assert (part.text, part.call_id) == ("17 rows", "c1")
