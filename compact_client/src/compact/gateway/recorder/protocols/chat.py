"""OpenAI Chat Completions, which many other servers speak as well."""

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
from compact.integrations.model_api import CHAT
from compact.ledgers.foreign_compaction import Format
from compact.messages.json_values import as_mapping, objects
from compact.messages.usage import Usage

# Fields of an answer that clients send back or leave out, and marks for the cache of compatible servers.
_MARKS = frozenset(
    {"refusal", "annotations", "audio", "reasoning_content", "reasoning_details", "cache_control", "index", "id"}
)
_EMPTY: tuple[Any, ...] = ("", [], None)


class ChatProtocol:
    """`POST /v1/chat/completions`."""

    name = "chat"
    format: Format = "chat"
    provider = "openai"
    api = CHAT

    def items(self, element: Any) -> list[Item]:
        return [dict(element)] if isinstance(element, Mapping) else []

    def system(self, body: RequestBody) -> list[Any]:
        return []

    def identity(self, item: Item) -> Any:
        own = {key: value for key, value in without(item, _MARKS).items() if value not in _EMPTY}
        content = own.get("content")
        if isinstance(content, list):
            parts = [without(part, _MARKS) for part in objects(content)]
            is_text = len(parts) == 1 and parts[0].get("type") == "text"
            own["content"] = parts[0].get("text") if is_text else parts
        calls = own.get("tool_calls")
        if calls:
            own["tool_calls"] = [{**without(call, frozenset({"index"})), "type": "function"} for call in objects(calls)]
        return own

    def model(self, body: RequestBody, path: str) -> str:
        return str(body.get("model") or "")

    def reader(self) -> AnswerReader:
        return _Reader()


class _Reader:
    def __init__(self) -> None:
        self.answer = Answer()
        self._message: Item = {"role": "assistant", "content": ""}
        self._calls: dict[int, dict[str, Any]] = {}

    def feed(self, event: Mapping[str, Any]) -> None:
        self._read_head(event)
        for choice in objects(event.get("choices")):
            if choice.get("index") in (0, None):
                self._extend(as_mapping(choice.get("delta")))
                self.answer.stop_reason = str(choice.get("finish_reason") or self.answer.stop_reason)

    def document(self, value: Mapping[str, Any]) -> None:
        self._read_head(value)
        for choice in objects(value.get("choices")):
            if choice.get("index") in (0, None):
                self.answer.items = [dict(as_mapping(choice.get("message")))]
                self.answer.stop_reason = str(choice.get("finish_reason") or "")

    def _read_head(self, value: Mapping[str, Any]) -> None:
        answer = self.answer
        answer.id, answer.model = str(value.get("id") or answer.id), str(value.get("model") or answer.model)
        error = value.get("error")
        if error:
            answer.error = str(as_mapping(error).get("code") or as_mapping(error).get("type") or "error")
        if usage := as_mapping(value.get("usage")):
            answer.usage = Usage.from_provider(usage)

    def _extend(self, delta: Mapping[str, Any]) -> None:
        for key in ("content", "reasoning_content", "refusal"):
            if isinstance(delta.get(key), str):
                self._message[key] = self._message.get(key, "") + delta[key]
        for call in objects(delta.get("tool_calls")):
            self._extend_call(call)
        if delta:
            self.answer.items = [self._message]

    def _extend_call(self, delta: Mapping[str, Any]) -> None:
        index = delta.get("index")
        number = index if isinstance(index, int) else len(self._calls)
        call = self._calls.setdefault(number, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        call["id"] = str(delta.get("id") or call["id"])
        function = as_mapping(delta.get("function"))
        call["function"]["name"] += str(function.get("name") or "")
        call["function"]["arguments"] += str(function.get("arguments") or "")
        self._message["tool_calls"] = [self._calls[key] for key in sorted(self._calls)]
