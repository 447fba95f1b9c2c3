"""pydantic-ai 2.x: compaction as a capability.

    agent = Agent("openai:gpt-5", capabilities=[CompactCapability(manager)])

The capability changes each model request in `prepare_model_request`. The run's message history stays complete.
Protect a message with `ModelRequest(parts=[…], metadata={"protected": True})`, or a result with `ToolReturn.metadata`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import RunContext, Tool
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
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from compact.integrations.model_call import CallOptions, ModelCall, new_session_id, warn_unidentified
from compact.integrations.own_items import own_items
from compact.integrations.recall_call import DESCRIPTION, PARAMETERS, TOOL_NAME, RecallCall
from compact.manager import CompactManager
from compact.planning.tool_results.durability import declared_policies
from compact.rendering.user_turns import OPENING_TEXT

SessionId = str | Callable[[Any], str] | None
_FIX = "Pass session_id=… to CompactCapability, or conversation_id=… to the run."


class CompactCapability(AbstractCapability[Any]):
    """Checks every model request against the context window.

    `session_id` is a string or a function of the run context. The default is the id of the conversation, or of the run
    if there is no conversation.
    """

    def __init__(self, manager: CompactManager, *, session_id: SessionId = None) -> None:
        self.manager = manager
        self._session_id = session_id
        self._own_id = new_session_id("pydantic-ai")
        """The session id of a run whose context has none."""
        self._request: _Request | None = None

    async def for_run(self, ctx: Any) -> CompactCapability:
        """Return a copy, because concurrent runs of an agent must not share the state of a request."""
        run_capability = copy.copy(self)
        run_capability._request = None
        run_capability._own_id = new_session_id("pydantic-ai")
        return run_capability

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Replace the messages of a request, or use the shortened ones if this is a retry."""
        if self._request is not None and self._request.retry_messages and request_context.attempt > 1:
            return replace(request_context, messages=self._request.retry_messages)
        self._request = _Request(self.manager, self._session(ctx), ctx, request_context)
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
        session_id = self._session_id(ctx) if callable(self._session_id) else self._session_id
        session_id = session_id or getattr(ctx, "conversation_id", None) or getattr(ctx, "run_id", None)
        if session_id:
            return str(session_id)
        warn_unidentified(self.manager, self._own_id, _FIX)
        return self._own_id


def recall_tool(
    manager: CompactManager,
    *,
    session_id: SessionId = None,
    name: str = TOOL_NAME,
    limit: int = 5,
    max_tokens: int = 2_000,
) -> Tool[Any]:
    """Return a tool for `Agent(tools=[…])` with which the agent can search in everything its session has contained.

    `session_id` is as for `CompactCapability`.
    """
    call = RecallCall(manager, name=name, limit=limit, max_tokens=max_tokens)

    async def recall(ctx: RunContext[Any], query: str) -> str:
        given = session_id(ctx) if callable(session_id) else session_id
        view = _ChatView(ctx.messages, protected_flag=manager.cfg.policy.protected_flag)
        return await call.arun(str(given or ctx.conversation_id or ctx.run_id), query, view.items)

    return Tool.from_schema(recall, name=name, description=DESCRIPTION, json_schema=dict(PARAMETERS), takes_ctx=True)


class _Request:
    """The model request of a run that is being prepared or waits for its response."""

    def __init__(self, manager: CompactManager, session_id: str, ctx: Any, request_context: Any) -> None:
        def options() -> CallOptions:
            manager = getattr(ctx, "tool_manager", None)
            return {
                "tools": _tools(request_context),
                "instructions": _instructions(request_context),
                "format": "chat",
                "durability": declared_policies(getattr(manager, "tools", None) or {}),
            }

        self._view = _ChatView(request_context.messages, protected_flag=manager.cfg.policy.protected_flag)
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

    def __init__(self, messages: Sequence[ModelMessage], *, protected_flag: str = "protected") -> None:
        self.items: list[dict[str, Any]] = []
        self._responses: dict[int, ModelResponse] = {}
        self._parts: dict[int, Any] = {}
        self._results: dict[str, Any] = {}
        self._requests: dict[tuple[int, ...], ModelRequest] = {}
        self._marks: dict[int, dict[str, Any] | None] = {}
        """The metadata of requests that are protected as a whole, by their parts."""
        for message in messages:
            is_protected = _has_flag(message.metadata, protected_flag)
            if isinstance(message, ModelResponse):
                item = _response_dict(message)
                self._responses[id(item)] = message
                self._add(item, protected_flag if is_protected else None)
                continue
            self._requests[_part_ids(message)] = message
            for part in message.parts:
                item = _part_dict(part)
                self._parts[id(item)] = part
                if is_protected:
                    self._marks[id(part)] = message.metadata
                if item["role"] == "tool":
                    self._results[item["tool_call_id"]] = part
                is_marked = is_protected or _has_flag(getattr(part, "metadata", None), protected_flag)
                self._add(item, protected_flag if is_marked else None)

    def _add(self, item: dict[str, Any], flag: str | None) -> None:
        if flag is not None:
            item["meta"] = {flag: True}
        self.items.append(item)

    def messages(self, items: Sequence[Any]) -> list[ModelMessage]:
        """Return the messages of a request. It starts with a user prompt, which Anthropic and Google require."""
        items = own_items(items, self.items)
        messages: list[ModelMessage] = []
        own_first, first = _first_spoken(self.items), _first_spoken(items)
        needs_opening = first is not None and first is not own_first and first.get("role") == "assistant"
        for item in items:
            if needs_opening and item is first:
                _append_part(messages, UserPromptPart(OPENING_TEXT))
            if id(item) in self._responses:
                messages.append(self._responses[id(item)])
            elif item.get("role") == "assistant":
                messages.append(_new_response(item))
            else:
                part = self._parts.get(id(item))
                _append_part(messages, self._changed_part(item) if part is None else part, self._marks.get(id(part)))
        return [self._original(message) for message in messages]

    def _changed_part(self, item: dict[str, Any]) -> Any:
        """Return a part that compaction wrote or shortened. A tool result keeps its name, outcome and metadata."""
        text = str(item.get("content") or "")
        if item.get("role") == "system":
            return SystemPromptPart(text)
        if item.get("role") != "tool":
            return UserPromptPart(text)
        call_id = str(item.get("tool_call_id") or "")
        original = self._results.get(call_id)
        if isinstance(original, ToolReturnPart):
            return replace(original, content=text)
        # A retry prompt, or an output that was added for a call without one.
        name = str(getattr(original, "tool_name", None) or item.get("name") or self._called_name(call_id) or "tool")
        return ToolReturnPart(tool_name=name, content=text, tool_call_id=call_id)

    def _called_name(self, call_id: str) -> str | None:
        parts = (part for response in self._responses.values() for part in response.parts)
        return next((p.tool_name for p in parts if isinstance(p, ToolCallPart) and p.tool_call_id == call_id), None)

    def _original(self, message: ModelMessage) -> ModelMessage:
        """Return the original request if all of its parts are present, because it also has instructions and ids."""
        return self._requests.get(_part_ids(message), message) if isinstance(message, ModelRequest) else message


def _first_spoken(items: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    return next((item for item in items if item.get("role") != "system"), None)


def _new_response(item: dict[str, Any]) -> ModelResponse:
    return ModelResponse(parts=[TextPart(str(item.get("content") or ""))])


def _append_part(messages: list[ModelMessage], part: Any, metadata: dict[str, Any] | None = None) -> None:
    """Add a part to the last message if that is a request with the same metadata, else to a new request.

    A host that continues with this prompt as its history must still say which requests are protected.
    """
    last = messages[-1] if messages else None
    if isinstance(last, ModelRequest) and last.metadata == metadata:
        messages[-1] = ModelRequest(parts=[*last.parts, part], metadata=metadata)
    else:
        messages.append(ModelRequest(parts=[part], metadata=metadata))


def _part_ids(request: ModelRequest) -> tuple[int, ...]:
    return tuple(id(part) for part in request.parts)


def _response_dict(message: ModelResponse) -> dict[str, Any]:
    text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
    item: dict[str, Any] = {"role": "assistant", "content": text}
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    if message.parts and isinstance(message.parts[0], ThinkingPart):
        # Only the place of the thinking counts. The response itself is sent.
        item["thinking_blocks"] = [{"type": "thinking"}]
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
        return {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name, "content": result}
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


def _has_flag(metadata: Any, flag: str) -> bool:
    return isinstance(metadata, Mapping) and bool(metadata.get(flag))


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
