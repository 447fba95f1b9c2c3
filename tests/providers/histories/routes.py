"""The ways from a host's list to a request: the library's own call, and the integrations of clients and frameworks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import anthropic
import httpx
import httpx2
import openai
from agents import Agent
from agents.run import CallModelData, ModelInputData
from compact import CompactManager
from compact.integrations.agents_sdk import agents_filter
from compact.integrations.anthropic import AnthropicMessages
from compact.integrations.generic import before_model_call
from compact.integrations.langchain import CompactMiddleware
from compact.integrations.langgraph import pre_model_hook
from compact.integrations.model_call import ModelCall
from compact.integrations.openai import ChatCompletions, Responses
from compact.integrations.pydantic_ai import CompactCapability
from compact.messages.block_kinds import Format
from langchain.agents.middleware.types import ModelRequest as LangChainRequest
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages, convert_to_openai_messages
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

Item = dict[str, Any]
SESSION = "s"
# Blocks of chat messages that frameworks have objects for.
_PORTABLE = frozenset({"text", "image_url", "function"})


class Route:
    """A way to send a list of messages through this library."""

    kinds: frozenset[str] | None = None
    """The rows of the table that the way can carry, None for all."""

    def send(self, manager: CompactManager, items: list[Item], codec: str) -> list[Item]:
        """Return the messages that the provider gets."""
        raise NotImplementedError

    def on_wire(self, prompt: list[Item]) -> list[Item]:
        """Return what the framework sends of a prompt."""
        return prompt

    def plain(self, items: Sequence[Item]) -> list[Item]:
        """Return the messages that the provider would get without this library."""
        return list(items)


class Preflight(Route):
    """The call that all integrations make."""

    def send(self, manager: CompactManager, items: list[Item], codec: str) -> list[Item]:
        return ModelCall(manager, SESSION, items, options=lambda: {"format": codec}).preflight()


class Generic(Route):
    """The hook of a hand-written loop, which names the format or has it recognized."""

    def __init__(self, *, names_format: bool) -> None:
        self._names_format = names_format

    def send(self, manager: CompactManager, items: list[Item], codec: str) -> list[Item]:
        context = SimpleNamespace(session_id=SESSION, messages=items, format=codec if self._names_format else None)
        before_model_call(manager)(context)
        return list(context.messages)


class Client(Route):
    """The wrappers of the providers' own clients."""

    def __init__(self) -> None:
        self._bodies: list[Any] = []
        options: Any = {"api_key": "k", "base_url": "http://provider", "max_retries": 0}
        self._openai = openai.OpenAI(**options, http_client=_http_client(httpx, self._respond))
        self._anthropic = anthropic.Anthropic(**options, http_client=_http_client(httpx2, self._respond))

    def send(self, manager: CompactManager, items: list[Item], codec: str) -> list[Item]:
        if codec == "anthropic":
            messages = AnthropicMessages(self._anthropic, manager, session_id=SESSION)
            messages.create(model="claude-opus-4-6", max_tokens=100, messages=items)
        elif codec == "responses":
            Responses(self._openai, manager, session_id=SESSION).create(model="gpt-5", input=items)
        else:
            ChatCompletions(self._openai, manager, session_id=SESSION).create(model="gpt-5", messages=items)
        body = self._bodies.pop()
        return list(body.get("input") or body["messages"])

    def _respond(self, body: Any) -> Item:
        self._bodies.append(body)
        return {"id": "r", "output": [], "content": [], "choices": []}


def _http_client(library: Any, respond: Callable[[Any], Item]) -> Any:
    """Return an HTTP client of `httpx` or its successor that sends nothing."""

    def handle(request: Any) -> Any:
        return library.Response(200, json=respond(json.loads(request.content)))

    return library.Client(transport=library.MockTransport(handle))


class AgentsSdk(Route):
    """The input filter of the OpenAI Agents SDK."""

    def send(self, manager: CompactManager, items: list[Item], codec: str) -> list[Item]:
        data = ModelInputData(input=items, instructions=None)
        call = CallModelData(model_data=data, agent=Agent("agent"), context=None)
        return list(asyncio.run(agents_filter(manager, session_id=SESSION)(call)).input)


class LangChain(Route):
    """The middleware of LangChain."""

    kinds = _PORTABLE

    def send(self, manager: CompactManager, items: list[Item], codec: str) -> list[Item]:
        sent: list[BaseMessage] = []

        def handle(request: Any) -> AIMessage:
            sent.extend(request.messages)
            return AIMessage("ok")

        model: Any = None
        request = LangChainRequest(model=model, messages=_to_langchain(items), tools=[], state={"messages": []})
        CompactMiddleware(manager, session_id=SESSION).wrap_model_call(request, handle)
        return _from_langchain(sent)

    def on_wire(self, prompt: list[Item]) -> list[Item]:
        return _without_meta(prompt)

    def plain(self, items: Sequence[Item]) -> list[Item]:
        return _from_langchain(_to_langchain(items))


class LangGraph(LangChain):
    """The hook of LangGraph."""

    def send(self, manager: CompactManager, items: list[Item], codec: str) -> list[Item]:
        hook = pre_model_hook(manager, session_id=SESSION)
        return _from_langchain(hook.invoke({"messages": _to_langchain(items)})["llm_input_messages"])


class PydanticAI(Route):
    """The capability of pydantic-ai."""

    kinds = _PORTABLE

    def send(self, manager: CompactManager, items: list[Item], codec: str) -> list[Item]:
        capability = CompactCapability(manager, session_id=SESSION)
        request = _PydanticRequest(_to_pydantic(items))
        return _from_pydantic(asyncio.run(capability.prepare_model_request(SimpleNamespace(), request)).messages)

    def on_wire(self, prompt: list[Item]) -> list[Item]:
        return _without_meta(prompt)

    def plain(self, items: Sequence[Item]) -> list[Item]:
        return _from_pydantic(_to_pydantic(items))


@dataclass
class _PydanticRequest:
    messages: list[ModelMessage]
    attempt: int = 1
    model_request_parameters: ModelRequestParameters = field(default_factory=ModelRequestParameters)


UNNAMED = Generic(names_format=False)
_SHARED: tuple[Route, ...] = (Preflight(), Generic(names_format=True), UNNAMED)
ROUTES: dict[Format, tuple[Route, ...]] = {
    Format.ANTHROPIC: (*_SHARED, Client()),
    Format.RESPONSES: (*_SHARED, Client(), AgentsSdk()),
    Format.GEMINI: _SHARED,
    Format.CHAT: (*_SHARED, Client(), LangChain(), LangGraph(), PydanticAI()),
}
"""The ways to send a list of each format."""


def _without_meta(prompt: Sequence[Item]) -> list[Item]:
    """Return what a framework sends: the metadata of a message stays in the framework."""
    return [{key: value for key, value in item.items() if key != "meta"} for item in prompt]


def _to_langchain(items: Sequence[Item]) -> list[BaseMessage]:
    messages = []
    for item in items:
        (message,) = convert_to_messages([{key: value for key, value in item.items() if key != "meta"}])
        if "meta" in item:
            message.additional_kwargs |= item["meta"]
        messages.append(message)
    return messages


def _from_langchain(messages: Sequence[BaseMessage]) -> list[Item]:
    items: list[Item] = []
    for message, item in zip(messages, convert_to_openai_messages(list(messages)), strict=True):
        # `ChatOpenAI` leaves out the name of a tool message, too.
        plain = {key: value for key, value in item.items() if key != "name"}
        mark = message.additional_kwargs.get("protected")
        items.append({**plain, "meta": {"protected": mark}} if mark else plain)
    return items


def _to_pydantic(items: Sequence[Item]) -> list[ModelMessage]:
    messages: list[ModelMessage] = []
    for item in items:
        metadata = item.get("meta")
        if item["role"] == "assistant":
            parts: list[Any] = [TextPart(text) for text in _contents(item["content"]) if text]
            for call in item.get("tool_calls") or ():
                function = call["function"]
                parts.append(ToolCallPart(function["name"], function["arguments"], tool_call_id=call["id"]))
            messages.append(ModelResponse(parts, metadata=metadata))
        else:
            messages.append(ModelRequest([_to_part(item)], metadata=metadata))
    return messages


def _to_part(item: Item) -> Any:
    if item["role"] == "tool":
        return ToolReturnPart("read", item["content"], tool_call_id=item["tool_call_id"])
    if item["role"] == "user":
        contents = _contents(item["content"])
        return UserPromptPart(contents[0] if len(contents) == 1 else contents)
    return SystemPromptPart(item["content"])


def _contents(content: Any) -> list[Any]:
    if not isinstance(content, list):
        return [content]
    return [
        part["text"] if part["type"] == "text" else BinaryContent.from_data_uri(part["image_url"]["url"])
        for part in content
    ]


def _from_pydantic(messages: Sequence[ModelMessage]) -> list[Item]:
    items: list[Item] = []
    for message in messages:
        if isinstance(message, ModelRequest):
            mark = {"meta": message.metadata} if message.metadata else {}
            items += ({**_from_part(part), **mark} for part in message.parts)
            continue
        calls = [
            {
                "id": part.tool_call_id,
                "type": "function",
                "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
            }
            for part in message.parts
            if isinstance(part, ToolCallPart)
        ]
        text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
        items.append({"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})})
    return items


def _from_part(part: Any) -> Item:
    if isinstance(part, ToolReturnPart):
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.content}
    if isinstance(part, SystemPromptPart):
        return {"role": "system", "content": part.content}
    contents = part.content if isinstance(part.content, list) else [part.content]
    parts = [
        {"type": "text", "text": content}
        if isinstance(content, str)
        else {"type": "image_url", "image_url": {"url": content.data_uri}}
        for content in contents
    ]
    return {"role": "user", "content": parts}
