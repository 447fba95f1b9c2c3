"""pydantic-ai 2.x: compaction as a capability.

    agent = Agent("openai:gpt-5", capabilities=[CompactCapability(manager)])

Works where pydantic-ai means it to: `prepare_model_request`, which shapes one request and leaves the history alone. An
overflow asks for another attempt with less. A fault of ours leaves the request as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import RetryModelRequest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from compact.delivery.stderr import say
from compact.integrations.retry import ashorter
from compact.manager import CompactManager

SessionId = str | Callable[[Any], str] | None


class CompactCapability(AbstractCapability[Any]):
    """Checks every model request; `session_id` may be a function of the run context.

    By default a session is a conversation, or the run if it has none.
    """

    def __init__(self, manager: CompactManager, *, session_id: SessionId = None) -> None:
        self.manager = manager
        self._session_id = session_id
        self._shown: dict[str, _Parts] = {}
        self._retries: dict[str, tuple[int, list[ModelMessage]]] = {}

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        session_id = self._session(ctx)
        waiting = self._retries.get(session_id)
        if waiting is not None and request_context.attempt > 1:
            return replace(request_context, messages=waiting[1])
        self._retries.pop(session_id, None)
        parts = self._shown[session_id] = _Parts(request_context.messages)
        try:
            items = await self.manager.apreflight(
                session_id,
                parts.items,
                tools=_tools(request_context),
                instructions=_instructions(request_context),
                format="chat",
            )
        except Exception as error:
            say("compact", f"not compacted, the input goes out as it is: {type(error).__name__}: {error}")
            return request_context
        return replace(request_context, messages=parts.messages(items))

    async def on_model_request_error(self, ctx: Any, *, request_context: Any, error: Exception) -> ModelResponse:
        session_id = self._session(ctx)
        attempt = self._retries.get(session_id, (0, []))[0] + 1
        parts = self._shown[session_id]
        items = await ashorter(self.manager, session_id, parts.items, error, attempt=attempt)
        self._retries[session_id] = (attempt, parts.messages(items))
        raise RetryModelRequest from error

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: ModelResponse) -> ModelResponse:
        session_id = self._session(ctx)
        self._retries.pop(session_id, None)
        self._shown.pop(session_id, None)
        if response.usage.input_tokens:
            self.manager.report_usage(session_id, response.usage)
        return response

    def _session(self, ctx: Any) -> str:
        if callable(self._session_id):
            return self._session_id(ctx)
        if self._session_id:
            return self._session_id
        return str(getattr(ctx, "conversation_id", None) or getattr(ctx, "run_id", None) or "pydantic-ai")


class _Parts:
    """pydantic-ai's messages as chat dicts, one a part; what was not changed goes back as the very object it was."""

    def __init__(self, messages: Sequence[ModelMessage]) -> None:
        self._places: dict[int, tuple[int, Any]] = {}
        self._messages = list(messages)
        self._requests: dict[tuple[int, ...], ModelRequest] = {}
        self.items: list[dict[str, Any]] = []
        for index, message in enumerate(self._messages):
            if isinstance(message, ModelResponse):
                self._add(_assistant(message), index, None)
            else:
                self._requests[_identity(message)] = message
                for part in message.parts:
                    self._add(_said(part), index, part)

    def _add(self, item: dict[str, Any], index: int, part: Any) -> None:
        self.items.append(item)
        self._places[id(item)] = (index, part)

    def messages(self, items: Sequence[Any]) -> list[ModelMessage]:
        made: list[ModelMessage] = []
        for item in items:
            place = self._places.get(id(item))
            if place is not None and place[1] is None:
                made.append(self._messages[place[0]])
            elif item.get("role") == "assistant":
                made.append(ModelResponse(parts=[TextPart(str(item.get("content") or ""))]))
            else:
                self._add_part(made, place[1] if place else _part(item))
        return [self._whole(message) for message in made]

    def _add_part(self, made: list[ModelMessage], part: Any) -> None:
        if made and isinstance(made[-1], ModelRequest):
            made[-1] = ModelRequest(parts=[*made[-1].parts, part])
        else:
            made.append(ModelRequest(parts=[part]))

    def _whole(self, message: ModelMessage) -> ModelMessage:
        """The original request where all of its parts are there: it also carries instructions and ids."""
        return self._requests.get(_identity(message), message) if isinstance(message, ModelRequest) else message


def _identity(request: ModelRequest) -> tuple[int, ...]:
    return tuple(id(part) for part in request.parts)


def _assistant(message: ModelResponse) -> dict[str, Any]:
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


def _said(part: Any) -> dict[str, Any]:
    if isinstance(part, SystemPromptPart):
        return {"role": "system", "content": part.content}
    if isinstance(part, ToolReturnPart) or getattr(part, "tool_name", None):
        text = part.model_response_str() if isinstance(part, ToolReturnPart) else part.model_response()
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": text}
    content = getattr(part, "content", "")
    if not isinstance(content, str):
        content = json.dumps(content, default=str)
    return {"role": "user", "content": content}


def _part(item: dict[str, Any]) -> Any:
    """A part for a message of ours: a shortened output, or a user's words."""
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
