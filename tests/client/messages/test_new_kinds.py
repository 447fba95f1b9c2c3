"""A new kind of item or block is one row of the table: codecs, units, normalization and counting follow from it."""

from __future__ import annotations

from typing import Any

import pytest
from compact.messages.block_kinds import BLOCK_KINDS, TEXT, BlockKind, Content, Format, leads_with_reasoning
from compact.messages.codecs import get_codec
from compact.messages.codecs.base import ABORTED
from compact.messages.normalization import normalize
from compact.messages.units import group_units

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAD0lEQVR4nGP8zwADTAxUYQIAVPcBD9YeExQAAAAASUVORK5CYII="
USER = {"role": "user", "content": "Go"}
ROWS = [
    BlockKind("robot_call", Format.RESPONSES, Content.CALL, answered_by="robot_call_output", is_item=True),
    BlockKind("robot_call_output", Format.RESPONSES, Content.RESULT, is_item=True, aborted={"output": {"state": TEXT}}),
    BlockKind("archive", Format.RESPONSES, Content.DATA, is_item=True, is_sealed=True),
    BlockKind("rulebook", Format.RESPONSES, Content.DATA, is_item=True, is_instruction=True),
    BlockKind("input_hologram", Format.RESPONSES, Content.MEDIA, media="image"),
    BlockKind("hologram", Format.ANTHROPIC, Content.MEDIA, media="image"),
    BlockKind("deep_thinking", Format.ANTHROPIC, Content.REASONING),
    BlockKind("weather_tool_result", Format.ANTHROPIC, Content.RESULT, is_hosted=True, links=("tool_use_id",)),
]


@pytest.fixture(autouse=True)
def new_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in ROWS:
        monkeypatch.setitem(BLOCK_KINDS, row.name, row)


def read(items: list[Any], codec: str) -> list[Any]:
    return [get_codec(codec).decode(item, index) for index, item in enumerate(items)]


def units_of(items: list[Any], codec: str) -> list[tuple[int, ...]]:
    return [unit.indices for unit in group_units(read(items, codec))]


def test_a_call_and_its_output_are_one_unit() -> None:
    call = {"type": "robot_call", "call_id": "c", "action": {"move": 1}}
    other = {"type": "function_call", "call_id": "d", "name": "f", "arguments": "{}"}
    output = {"type": "robot_call_output", "call_id": "c", "output": {"state": "moved"}}
    assert units_of([USER, call, USER, output, other], "responses") == [(0,), (1, 3), (2,), (4,)]


def test_an_aborted_call_gets_an_output_of_its_kind() -> None:
    messages = read([USER, {"type": "robot_call", "call_id": "c"}, USER], "responses")
    (output,) = [item.source for item in normalize(messages, get_codec("responses")).messages if item.role == "tool"]
    assert output == {"type": "robot_call_output", "call_id": "c", "output": {"state": ABORTED}}


def test_sealed_items_and_instructions_are_recognized() -> None:
    sealed, rules = read([{"type": "archive", "encrypted_content": "x" * 600}, {"type": "rulebook"}], "responses")
    assert (sealed.kind, sealed.extra_tokens) == ("sealed", 100)
    assert rules.role == "developer"


@pytest.mark.parametrize(
    ("codec", "part"),
    [
        ("responses", {"type": "input_hologram", "image_url": f"data:image/png;base64,{PIXEL}"}),
        ("anthropic", {"type": "hologram", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}),
    ],
)
def test_media_is_counted_as_its_kind(codec: str, part: Any) -> None:
    (message,) = read([{"role": "user", "content": [part]}], codec)
    assert [(media.kind, media.width) for media in message.media] == [("image", 8)]
    assert PIXEL not in message.text


def test_a_result_of_the_provider_stays_with_its_call() -> None:
    call = {"type": "server_tool_use", "id": "s", "name": "weather", "input": {}}
    result = {"type": "weather_tool_result", "tool_use_id": "s", "content": "Sunny"}
    turns = [{"role": "assistant", "content": [block]} for block in (call, result)]
    assert units_of([USER, turns[0], turns[1], USER], "anthropic") == [(0,), (1, 2), (3,)]


def test_thinking_is_read_and_leads_a_turn() -> None:
    (message,) = read([{"role": "assistant", "content": [{"type": "deep_thinking", "thinking": "So."}]}], "anthropic")
    assert message.text == "So."
    assert leads_with_reasoning(message.source)
