"""OpenAI Responses, over HTTP and websockets. An item is a block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compact.gateway.recorder.protocols.base import (
    Answer,
    AnswerReader,
    Item,
    RequestBody,
    without,
)
from compact.integrations.model_api import RESPONSES
from compact.ledgers.foreign_compaction import Format
from compact.messages.json_values import as_mapping, objects
from compact.messages.usage import Usage

# Ids and states that clients add, leave out or change when they send an item again.
_MARKS = frozenset({"id", "status", "phase", "metadata", "internal_chat_message_metadata_passthrough"})
_PART_MARKS = frozenset({"annotations", "logprobs", "type"})
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.done")


class ResponsesProtocol:
    """`POST /v1/responses`, and `response.create` on a websocket."""

    name = "responses"
    format: Format = "responses"
    provider = "openai"
    api = RESPONSES

    def items(self, element: Any) -> list[Item]:
        if isinstance(element, str):
            return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": element}]}]
        return [dict(element)] if isinstance(element, Mapping) else []

    def system(self, body: RequestBody) -> list[Any]:
        instructions = body.get("instructions")
        return [instructions] if isinstance(instructions, str) and instructions else []

    def identity(self, item: Item) -> Any:
        own = without(item, _MARKS)
        if "role" in own:
            own.setdefault("type", "message")
        content = own.get("content")
        if isinstance(content, str):
            own["content"] = [{"text": content}]
        elif isinstance(content, list):
            own["content"] = [without(part, _PART_MARKS) for part in objects(content)]
        return own

    def model(self, body: RequestBody, path: str) -> str:
        return str(body.get("model") or "")

    def reader(self) -> AnswerReader:
        return _Reader()


class _Reader:
    def __init__(self) -> None:
        self.answer = Answer()
        self._items: dict[int, Item] = {}

    def feed(self, event: Mapping[str, Any]) -> None:
        kind = str(event.get("type") or "")
        if kind in ("response.created", "response.in_progress"):
            self._start(as_mapping(event.get("response")))
        elif kind == "response.output_item.done":
            index = event.get("output_index")
            self._items[index if isinstance(index, int) else len(self._items)] = dict(as_mapping(event.get("item")))
            self.answer.items = [self._items[number] for number in sorted(self._items)]
        elif kind in _ENDS:
            self.document(as_mapping(event.get("response")))
        elif kind == "error":
            self.answer.error = str(event.get("code") or as_mapping(event.get("error")).get("code") or "error")

    def document(self, value: Mapping[str, Any]) -> None:
        self._start(value)
        output = [dict(item) for item in objects(value.get("output"))]
        self.answer.items = output or self.answer.items
        self.answer.stop_reason = str(value.get("status") or "")
        error = as_mapping(value.get("error"))
        self.answer.error = str(error.get("code") or error.get("type") or "error") if error else ""
        if usage := as_mapping(value.get("usage")):
            self.answer.usage = Usage.from_provider(usage)

    def _start(self, response: Mapping[str, Any]) -> None:
        self.answer.id = str(response.get("id") or self.answer.id)
        self.answer.model = str(response.get("model") or self.answer.model)
