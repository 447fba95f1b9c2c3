"""Anthropic Messages. A message is split into its content blocks, because agents merge adjacent messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compact.delivery import fast_json
from compact.gateway.recorder.protocols.base import (
    Answer,
    AnswerReader,
    Item,
    RequestBody,
    without,
)
from compact.integrations.model_api import ANTHROPIC
from compact.ledgers.foreign_compaction import Format
from compact.messages.json_values import as_mapping, objects
from compact.messages.usage import Usage

_MARKS = frozenset({"cache_control"})
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class AnthropicProtocol:
    """`POST /v1/messages`."""

    name = "anthropic"
    format: Format = "anthropic"
    provider = "anthropic"
    api = ANTHROPIC

    def items(self, element: Any) -> list[Item]:
        message = as_mapping(element)
        role, content = str(message.get("role") or "user"), message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        return [{"role": role, "content": [dict(block)]} for block in objects(content)]

    def system(self, body: RequestBody) -> list[Any]:
        system = body.get("system")
        return [system] if isinstance(system, str) else list(objects(system))

    def identity(self, item: Item) -> Any:
        (block,) = item["content"] or ({},)
        own = without(block, _MARKS)
        if isinstance(own.get("content"), list):
            own["content"] = _text_or_parts(own["content"])
        return item["role"], own

    def model(self, body: RequestBody, path: str) -> str:
        return str(body.get("model") or "")

    def reader(self) -> AnswerReader:
        return _Reader()


def _text_or_parts(content: list[Any]) -> Any:
    """Return the content of a result as a text if that says the same."""
    parts = [without(part, _MARKS) for part in objects(content)]
    if len(parts) == 1 and parts[0].get("type") == "text":
        return parts[0].get("text")
    return parts


def _input(text: str) -> Any:
    """Return the arguments of a call, or their text if it is not JSON, as after an abort."""
    try:
        return fast_json.parse(text.encode()) if text else {}
    except (ValueError, RecursionError):
        return text


class _Reader:
    def __init__(self) -> None:
        self.answer = Answer()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, str] = {}

    def feed(self, event: Mapping[str, Any]) -> None:
        kind, index = event.get("type"), event.get("index")
        if isinstance(index, int):
            self._feed_block(kind, index, event)
        elif kind == "message_start":
            self._start(as_mapping(event.get("message")))
        elif kind == "message_delta":
            self.answer.stop_reason = str(as_mapping(event.get("delta")).get("stop_reason") or "")
            self._read_usage(as_mapping(event.get("usage")))
        elif kind == "error":
            self.answer.error = str(as_mapping(event.get("error")).get("type") or "error")

    def _feed_block(self, kind: Any, index: int, event: Mapping[str, Any]) -> None:
        if kind == "content_block_start":
            self._blocks[index] = dict(as_mapping(event.get("content_block")))
            self.answer.items = [{"role": "assistant", "content": [block]} for block in self._blocks.values()]
        elif kind == "content_block_delta" and index in self._blocks:
            self._extend(index, as_mapping(event.get("delta")))
        elif kind == "content_block_stop" and index in self._arguments:
            self._blocks[index]["input"] = _input(self._arguments.pop(index))

    def document(self, value: Mapping[str, Any]) -> None:
        if value.get("type") == "error":
            self.feed(value)
            return
        self._start(value)
        self.answer.items = [{"role": "assistant", "content": [dict(block)]} for block in objects(value.get("content"))]
        self.answer.stop_reason = str(value.get("stop_reason") or "")

    def _start(self, message: Mapping[str, Any]) -> None:
        self.answer.id, self.answer.model = str(message.get("id") or ""), str(message.get("model") or "")
        self._read_usage(as_mapping(message.get("usage")))

    def _extend(self, index: int, delta: Mapping[str, Any]) -> None:
        block = self._blocks[index]
        if delta.get("type") == "input_json_delta":
            self._arguments[index] = self._arguments.get(index, "") + str(delta.get("partial_json") or "")
        elif delta.get("type") == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
        elif (key := _DELTAS.get(str(delta.get("type")))) is not None:
            block[key] = str(block.get(key) or "") + str(delta.get(key) or "")

    def _read_usage(self, usage: Mapping[str, Any]) -> None:
        """Read the counts. Those at the end of a stream have only some of them."""
        if not usage:
            return
        known, counts = self.answer.usage or Usage(0), Usage.from_provider(usage)
        output = counts.output_tokens or known.output_tokens
        self.answer.usage = replace(counts if "input_tokens" in usage else known, output_tokens=output)
