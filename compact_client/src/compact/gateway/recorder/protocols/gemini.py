"""Gemini `generateContent` and `streamGenerateContent`. Parts are recorded as blocks in Anthropic's format.

A call without an id is answered by the name of its function, which is then its id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from compact.gateway.recorder.protocols.base import (
    Answer,
    AnswerReader,
    Item,
    RequestBody,
)
from compact.integrations.model_api import GEMINI
from compact.ledgers.foreign_compaction import Format
from compact.messages.json_values import as_count, as_mapping, objects
from compact.messages.usage import Usage

_MODEL = re.compile(r"/models/([^/:?]+)")
_ROLES = {"model": "assistant", "user": "user", "function": "user", "system": "system"}


class GeminiProtocol:
    """`POST /v1beta/models/MODEL:generateContent`."""

    name = "gemini"
    format: Format = "anthropic"
    provider = "gemini"
    api = GEMINI

    def items(self, element: Any) -> list[Item]:
        content = as_mapping(element)
        role = _ROLES.get(str(content.get("role") or "user"), "user")
        return [{"role": role, "content": [_block(part)]} for part in objects(content.get("parts"))]

    def system(self, body: RequestBody) -> list[Any]:
        instruction = as_mapping(body.get("systemInstruction") or body.get("system_instruction"))
        return [_block(part) for part in objects(instruction.get("parts"))]

    def identity(self, item: Item) -> Any:
        (block,) = item["content"]
        return item["role"], block

    def model(self, body: RequestBody, path: str) -> str:
        match = _MODEL.search(path)
        return match[1] if match else ""

    def reader(self) -> AnswerReader:
        return _Reader()


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part as a block of Anthropic's format."""
    if part.get("functionCall"):
        return _call(as_mapping(part["functionCall"]))
    if part.get("functionResponse"):
        return _result(as_mapping(part["functionResponse"]))
    if data := as_mapping(part.get("inlineData") or part.get("inline_data")):
        return _media(data)
    if part.get("thought"):
        return {"type": "thinking", "thinking": str(part.get("text") or "")}
    if "text" in part:
        return {"type": "text", "text": str(part["text"])}
    return dict(part)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    name = str(call.get("name") or "")
    return {"type": "tool_use", "id": str(call.get("id") or name), "name": name, "input": call.get("args") or {}}


def _result(result: Mapping[str, Any]) -> dict[str, Any]:
    name, response = str(result.get("name") or ""), as_mapping(result.get("response"))
    output = response.get("output", response.get("error", response.get("result")))
    text = output if isinstance(output, str) else json.dumps(dict(response), ensure_ascii=False)
    return {"type": "tool_result", "tool_use_id": str(result.get("id") or name), "content": text}


def _media(data: Mapping[str, Any]) -> dict[str, Any]:
    media_type = str(data.get("mimeType") or data.get("mime_type") or "")
    source = {"type": "base64", "media_type": media_type, "data": data.get("data")}
    return {"type": "image" if media_type.startswith("image/") else "document", "source": source}


class _Reader:
    def __init__(self) -> None:
        self.answer = Answer()
        self._blocks: list[dict[str, Any]] = []

    def feed(self, event: Mapping[str, Any]) -> None:
        self.document(event)

    def document(self, value: Mapping[str, Any]) -> None:
        answer = self.answer
        answer.id = str(value.get("responseId") or answer.id)
        answer.model = str(value.get("modelVersion") or answer.model)
        if value.get("error"):
            answer.error = str(as_mapping(value["error"]).get("status") or "error")
        for candidate in objects(value.get("candidates")):
            if candidate.get("index") in (0, None):
                self._extend(as_mapping(candidate.get("content")))
                answer.stop_reason = str(candidate.get("finishReason") or answer.stop_reason)
        usage = as_mapping(value.get("usageMetadata"))
        if usage:
            answer.usage = Usage(
                as_count(usage.get("promptTokenCount")) + as_count(usage.get("toolUsePromptTokenCount")),
                as_count(usage.get("candidatesTokenCount")) + as_count(usage.get("thoughtsTokenCount")),
                as_count(usage.get("cachedContentTokenCount")),
            )

    def _extend(self, content: Mapping[str, Any]) -> None:
        for part in objects(content.get("parts")):
            block = _block(part)
            key = {"text": "text", "thinking": "thinking"}.get(str(block.get("type")))
            last = self._blocks[-1] if self._blocks else {}
            if key and last.get("type") == block["type"]:
                last[key] += block[key]
            else:
                self._blocks.append(block)
        self.answer.items = [{"role": "assistant", "content": [block]} for block in self._blocks]
