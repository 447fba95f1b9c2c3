"""Tool loops with the OpenAI and Anthropic clients, in each of their ways to send a request.

A loop keeps the whole history, as applications do. `client` may be the provider's own resource or our wrapper.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, field
from typing import Any

import pydantic

SCHEMA = {
    "type": "object",
    "properties": {"step": {"type": "integer"}, "total": {"type": "integer"}},
    "required": ["step", "total"],
    "additionalProperties": False,
}


class Answer(pydantic.BaseModel):
    """The structured output of `parse`."""

    text: str


async def resolve(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def collect(stream: Any) -> list[Any]:
    """Return all events of a sync or async stream."""
    return [event async for event in stream] if hasattr(stream, "__anext__") else list(stream)


def result_text(arguments: Any, filler: str) -> str:
    values = json.loads(arguments) if isinstance(arguments, str) else arguments
    return f"step {values['step']}/{values['total']} {filler}"


@dataclass
class Loop:
    """One conversation. Subclasses know the format of an API."""

    client: Any
    way: str = "create"
    filler: str = "lorem ipsum dolor " * 40
    history: list[Any] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    """Further arguments of each request."""

    async def say(self, content: Any) -> str:
        """Add a user message, run the tool loop, and return the answer."""
        self.history.append({"role": "user", "content": content})
        while True:
            text, calls = await self.turn()
            if not calls:
                return text
            self.add_results(calls)

    async def turn(self) -> tuple[str, list[Any]]:
        raise NotImplementedError

    def add_results(self, calls: list[Any]) -> None:
        raise NotImplementedError

    async def send_raw(self, arguments: dict[str, Any]) -> Any:
        response = await resolve(self.client.with_raw_response.create(**arguments))
        assert response.headers["content-type"] == "application/json"
        return await resolve(response.parse())

    async def send_streaming(self, arguments: dict[str, Any]) -> Any:
        manager = self.client.with_streaming_response.create(**arguments)
        if hasattr(manager, "__aenter__"):
            async with manager as response:
                return await response.parse()
        with manager as response:
            return response.parse()

    async def final(self, manager: Any, name: str) -> Any:
        """Return the final response of the client's own `stream`."""
        if hasattr(manager, "__aenter__"):
            async with manager as stream:
                return await getattr(stream, name)()
        with manager as stream:
            return getattr(stream, name)()


class ChatLoop(Loop):
    """Chat Completions."""

    async def turn(self) -> tuple[str, list[Any]]:
        tool = {"type": "function", "function": {"name": "read", "parameters": SCHEMA, "strict": True}}
        arguments = {"model": "gpt-5", "messages": self.history, "tools": [tool], **self.extra}
        usage = {"stream_options": {"include_usage": True}}
        if self.way == "create_stream":
            chunks = await collect(await resolve(self.client.create(**arguments, **usage, stream=True)))
            return self._add_chunks(chunks)
        if self.way == "stream":
            completion = await self.final(self.client.stream(**arguments, **usage), "get_final_completion")
        elif self.way == "parse":
            completion = await resolve(self.client.parse(**arguments, response_format=Answer))
        elif self.way in ("raw", "streaming"):
            completion = await getattr(self, f"send_{self.way}")(arguments)
        else:
            completion = await resolve(self.client.create(**arguments))
        message = completion.choices[0].message
        calls = [(call.id, call.function.arguments) for call in message.tool_calls or ()]
        return self._add_message(message.content, calls)

    def add_results(self, calls: list[Any]) -> None:
        for call_id, arguments in calls:
            text = result_text(arguments, self.filler)
            self.history.append({"role": "tool", "tool_call_id": call_id, "content": text})

    def _add_chunks(self, chunks: list[Any]) -> tuple[str, list[Any]]:
        text, calls = "", {}
        for chunk in chunks:
            delta = chunk.choices[0].delta if chunk.choices else None
            text += (delta.content or "") if delta else ""
            for call in (delta.tool_calls or ()) if delta else ():
                call_id, arguments = calls.get(call.index, (call.id, ""))
                calls[call.index] = (call_id, arguments + (call.function.arguments or ""))
        return self._add_message(text or None, list(calls.values()))

    def _add_message(self, text: str | None, calls: list[tuple[str, str]]) -> tuple[str, list[Any]]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": "read", "arguments": arguments}}
                for call_id, arguments in calls
            ]
        self.history.append(message)
        return text or "", calls


class ResponsesLoop(Loop):
    """Responses."""

    async def turn(self) -> tuple[str, list[Any]]:
        tool = {"type": "function", "name": "read", "parameters": SCHEMA, "strict": True}
        arguments = {"model": "gpt-5", "input": self.history, "tools": [tool], **self.extra}
        if self.way == "create_stream":
            events = await collect(await resolve(self.client.create(**arguments, stream=True)))
            response = events[-1].response
        elif self.way == "stream":
            response = await self.final(self.client.stream(**arguments), "get_final_response")
        elif self.way == "parse":
            response = await resolve(self.client.parse(**arguments, text_format=Answer))
        elif self.way in ("raw", "streaming"):
            response = await getattr(self, f"send_{self.way}")(arguments)
        else:
            response = await resolve(self.client.create(**arguments))
        for item in response.output:
            data = item.model_dump(exclude_none=True, exclude={"parsed_arguments": True})
            for part in data.get("content") or () if data["type"] == "message" else ():
                part.pop("parsed", None)
            self.history.append(data)
        return response.output_text, [item for item in response.output if item.type == "function_call"]

    def add_results(self, calls: list[Any]) -> None:
        for call in calls:
            text = result_text(call.arguments, self.filler)
            self.history.append({"type": "function_call_output", "call_id": call.call_id, "output": text})


class AnthropicLoop(Loop):
    """Anthropic Messages."""

    async def turn(self) -> tuple[str, list[Any]]:
        tool = {"name": "read", "input_schema": SCHEMA}
        arguments = {
            "model": "claude-opus-4-6",
            "max_tokens": 4_096,
            "system": "Read files.",
            "messages": self.history,
            "tools": [tool],
            **self.extra,
        }
        if self.way == "create_stream":
            events = await collect(await resolve(self.client.create(**arguments, stream=True)))
            content = _accumulate(events)
        else:
            if self.way == "stream":
                message = await self.final(self.client.stream(**arguments), "get_final_message")
            elif self.way == "parse":
                message = await resolve(self.client.parse(**arguments, output_format=Answer))
            elif self.way in ("raw", "streaming"):
                message = await getattr(self, f"send_{self.way}")(arguments)
            else:
                message = await resolve(self.client.create(**arguments))
            content = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in message.content]
        self.history.append({"role": "assistant", "content": content})
        text = "".join(block["text"] for block in content if block["type"] == "text")
        return text, [block for block in content if block["type"] == "tool_use"]

    def add_results(self, calls: list[Any]) -> None:
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": result_text(call["input"], self.filler)}
            for call in calls
        ]
        self.history.append({"role": "user", "content": results})


def _accumulate(events: list[Any]) -> list[dict[str, Any]]:
    """Return the content blocks of a raw event stream."""
    blocks: list[dict[str, Any]] = []
    inputs: dict[int, str] = {}
    for event in events:
        if event.type == "content_block_start":
            blocks.append(event.content_block.model_dump(exclude_none=True))
        elif event.type == "content_block_delta":
            delta, block = event.delta, blocks[event.index]
            if delta.type == "input_json_delta":
                inputs[event.index] = inputs.get(event.index, "") + delta.partial_json
            elif delta.type == "text_delta":
                block["text"] += delta.text
            elif delta.type == "thinking_delta":
                block["thinking"] += delta.thinking
            elif delta.type == "signature_delta":
                block["signature"] = delta.signature
    for index, text in inputs.items():
        blocks[index]["input"] = json.loads(text)
    return blocks
