"""pydantic-ai 2.x: compaction as a capability.

    agent = Agent("openai:gpt-5", capabilities=[CompactCapability(manager)])

The capability changes each model request in `prepare_model_request`. The run's message history stays complete.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import RetryModelRequest
from pydantic_ai.messages import (
    BinaryContent,
    FileUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from compact.integrations.model_call import CallOptions, ModelCall
from compact.manager import CompactManager

SessionId = str | Callable[[Any], str] | None


class CompactCapability(AbstractCapability[Any]):
    """Checks every model request against the context window.

    `session_id` is a string or a function of the run context. The default is the id of the conversation, or of the run
    if there is no conversation.
    """

    def __init__(self, manager: CompactManager, *, session_id: SessionId = None) -> None:
        self.manager = manager
        self._session_id = session_id
        self._request: _Request | None = None

    async def for_run(self, ctx: Any) -> CompactCapability:
        """Return a copy, because concurrent runs of an agent must not share the state of a request."""
        run_capability = copy.copy(self)
        run_capability._request = None
        return run_capability

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Replace the messages of a request, or use the shortened ones if this is a retry."""
        if self._request is not None and self._request.retry_messages and request_context.attempt > 1:
            return replace(request_context, messages=self._request.retry_messages)
        self._request = _Request(self.manager, self._session(ctx), request_context)
        return replace(request_context, messages=await self._request.prepare())

    async def on_model_request_error(self, ctx: Any, *, request_context: Any, error: Exception) -> ModelResponse:
        """Ask for a retry with fewer messages after a context overflow. Raise any other error again."""
        if self._request is None:
            raise error
        await self._request.recover(error)
        raise RetryModelRequest from error

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: ModelResponse) -> ModelResponse:
        """Report the token counts of the response."""
        if self._request is not None:
            self._request.call.report(response)
            self._request = None
        return response

    def _session(self, ctx: Any) -> str:
        if callable(self._session_id):
            return self._session_id(ctx)
        if self._session_id:
            return self._session_id
        return str(getattr(ctx, "conversation_id", None) or getattr(ctx, "run_id", None) or "pydantic-ai")


class _Request:
    """The model request of a run that is being prepared or waits for its response."""

    def __init__(self, manager: CompactManager, session_id: str, request_context: Any) -> None:
        def options() -> CallOptions:
            return {"tools": _tools(request_context), "instructions": _instructions(request_context), "format": "chat"}

        self._view = _ChatView(request_context.messages)
        self.call = ModelCall(manager, session_id, self._view.items, options=options, read_usage=_usage)
        self.retry_messages: list[ModelMessage] = []

    async def prepare(self) -> list[ModelMessage]:
        return self._view.messages(await self.call.aprepare())

    async def recover(self, error: Exception) -> None:
        self.retry_messages = self._view.messages(await self.call.arecover(error))


class _ChatView:
    """pydantic-ai messages as chat dicts, and back. Unchanged messages come back as the original objects.

    A response is one dict. A request is one dict per part.
    """

    def __init__(self, messages: Sequence[ModelMessage]) -> None:
        self.items: list[dict[str, Any]] = []
        self._responses: dict[int, ModelResponse] = {}
        self._parts: dict[int, Any] = {}
        self._requests: dict[tuple[int, ...], ModelRequest] = {}
        for message in messages:
            if isinstance(message, ModelResponse):
                item = _response_dict(message)
                self._responses[id(item)] = message
                self.items.append(item)
            else:
                self._requests[_part_ids(message)] = message
                for part in message.parts:
                    item = _part_dict(part)
                    self._parts[id(item)] = part
                    self.items.append(item)

    def messages(self, items: Sequence[Any]) -> list[ModelMessage]:
        messages: list[ModelMessage] = []
        for item in items:
            if id(item) in self._responses:
                messages.append(self._responses[id(item)])
            elif item.get("role") == "assistant":
                messages.append(ModelResponse(parts=[TextPart(str(item.get("content") or ""))]))
            else:
                _append_part(messages, self._parts[id(item)] if id(item) in self._parts else _part(item))
        return [self._original(message) for message in messages]

    def _original(self, message: ModelMessage) -> ModelMessage:
        """Return the original request if all of its parts are present, because it also has instructions and ids."""
        return self._requests.get(_part_ids(message), message) if isinstance(message, ModelRequest) else message


def _append_part(messages: list[ModelMessage], part: Any) -> None:
    """Add a part to the last message if that is a request, else to a new request."""
    if messages and isinstance(messages[-1], ModelRequest):
        messages[-1] = ModelRequest(parts=[*messages[-1].parts, part])
    else:
        messages.append(ModelRequest(parts=[part]))


def _part_ids(request: ModelRequest) -> tuple[int, ...]:
    return tuple(id(part) for part in request.parts)


def _response_dict(message: ModelResponse) -> dict[str, Any]:
    text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
    item: dict[str, Any] = {"role": "assistant", "content": text}
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    if calls:
        item["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.tool_name, "arguments": call.args_as_json_str()},
            }
            for call in calls
        ]
    return item


def _part_dict(part: Any) -> dict[str, Any]:
    if isinstance(part, SystemPromptPart):
        return {"role": "system", "content": part.content}
    content = getattr(part, "content", "")
    if isinstance(part, ToolReturnPart) or getattr(part, "tool_name", None):
        files = _files_in(content)
        if files:
            result: Any = [*(_text_parts(content)), *files]
        else:
            result = part.model_response_str() if isinstance(part, ToolReturnPart) else part.model_response()
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": result}
    if not isinstance(content, str):
        files = _files_in(content)
        content = [*_text_parts(content), *files] if files else _json_text(content)
    return {"role": "user", "content": content}


def _files_in(content: Any) -> list[dict[str, Any]]:
    """Return the images, recordings and documents of a content as chat parts."""
    if isinstance(content, Mapping):
        return _files_in(list(content.values()))
    if isinstance(content, list | tuple):
        return [part for item in content for part in _files_in(item)]
    if isinstance(content, BinaryContent):
        return [_file_part(content.media_type, content.data_uri)]
    if isinstance(content, FileUrl):
        return [_file_part(content.media_type, content.url)]
    return []


def _file_part(media_type: str, url: str) -> dict[str, Any]:
    if media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    if media_type.startswith("audio/"):
        return {"type": "input_audio", "input_audio": {"data": url, "format": media_type.partition("/")[2]}}
    return {"type": "file", "file": {"file_data": url, "mime_type": media_type}}


def _text_parts(content: Any) -> list[dict[str, Any]]:
    items = content if isinstance(content, list | tuple) else [content]
    texts = [item if isinstance(item, str) else _json_text(item) for item in items if not _files_in(item)]
    return [{"type": "text", "text": text} for text in texts]


def _json_text(content: Any) -> str:
    return json.dumps(content, default=str)


def _part(item: dict[str, Any]) -> Any:
    """Return a part for a message that compaction wrote or shortened."""
    text = str(item.get("content") or "")
    if item.get("role") == "tool":
        return ToolReturnPart(
            tool_name=str(item.get("name") or "tool"), content=text, tool_call_id=item["tool_call_id"]
        )
    return UserPromptPart(text)


def _tools(request_context: Any) -> list[Any]:
    parameters = request_context.model_request_parameters
    return [
        {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
        for tool in [*parameters.function_tools, *parameters.output_tools]
    ]


def _instructions(request_context: Any) -> str | None:
    parts = getattr(request_context.model_request_parameters, "instruction_parts", None) or ()
    return "\n\n".join(part.content for part in parts) or None


def _usage(response: ModelResponse) -> Any:
    return response.usage if response.usage.input_tokens else None
