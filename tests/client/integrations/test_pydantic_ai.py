"""pydantic-ai: an agent with a `FunctionModel`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compact import CompactManager
from compact.integrations.pydantic_ai import CompactCapability
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

LONG = "lorem ipsum dolor " * 60
OVERFLOW = "This model's maximum context length is 100 tokens, you requested 150"


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_long_runs_are_compacted(is_streamed: bool, manager: CompactManager, events: list[Any]) -> None:
    """The request is short and its tool pairs are complete. The history keeps everything."""
    sent: list[list[Any]] = []

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        sent.append(messages)
        n = len(sent)
        part = TextPart("done") if n > 10 else ToolCallPart("read", {"path": f"{n}.py"}, f"c{n}")
        return ModelResponse(parts=[part])

    async def stream(messages: list[Any], info: Any) -> Any:
        sent.append(messages)
        n = len(sent)
        if n > 10:
            yield "done"
        else:
            yield {0: DeltaToolCall("read", json.dumps({"path": f"{n}.py"}), tool_call_id=f"c{n}")}

    agent = Agent(
        FunctionModel(answer, stream_function=stream),
        instructions="Read.",
        capabilities=[CompactCapability(manager, session_id="s")],
    )

    @agent.tool_plain
    def read(path: str) -> str:
        """Read a file."""
        return f"{path}: {LONG}"

    if is_streamed:
        async with agent.run_stream("Read ten files.") as streamed:
            assert await streamed.get_output() == "done"
    else:
        result = await agent.run("Read ten files.")
        assert result.output == "done"
        assert len(result.all_messages()) == 22
    assert any(event["event"] == "compact.pruned_messages" for event in events)
    parts = [part for message in sent[-1] for part in message.parts]
    calls = [part.tool_call_id for part in parts if isinstance(part, ToolCallPart)]
    assert calls == [part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)]
    assert len(sent[-1]) < 20
    assert any("<COMPACT-SUMMARY" in str(getattr(part, "content", "")) for part in parts)


@pytest.mark.req("R-OVER-1")
async def test_an_overflow_is_recovered(manager: CompactManager, events: list[Any]) -> None:
    """The model is called with fewer messages after each overflow, and the run succeeds."""
    request_sizes: list[int] = []

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        request_sizes.append(len(messages))
        if len(request_sizes) < 3:
            raise ModelHTTPError(400, "m", {"code": "context_length_exceeded", "message": OVERFLOW})
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(answer), capabilities=[CompactCapability(manager, session_id="s")], retries=3)
    history: list[Any] = []
    for n in range(12):
        history += [
            ModelRequest(parts=[UserPromptPart(f"{n} " + "word " * 10)]),
            ModelResponse(parts=[TextPart(f"answer {n}")]),
        ]
    result = await agent.run("And now?", message_history=history)
    assert result.output == "done"
    assert request_sizes[2] < request_sizes[1] < request_sizes[0] == 25
    assert any(event["event"] == "compact.overflow_recovered" for event in events)


@pytest.mark.parametrize("count", [1, 20])
async def test_protected_messages_are_the_same_objects(count: int, manager: CompactManager, events: list[Any]) -> None:
    """They are sent as they were, with their tool calls, before and after a compaction."""
    sent: list[Any] = []

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        sent.extend(messages)
        return ModelResponse(parts=[TextPart("done")])

    mark = {"protected": True}
    protected = [
        ModelRequest(parts=[UserPromptPart("Keep this.")], metadata=mark),
        ModelResponse(parts=[ToolCallPart("read", {"path": "a.py"}, "c1")], metadata=mark),
        ModelRequest(parts=[ToolReturnPart("read", "text", "c1")], metadata=mark),
        ModelResponse(parts=[ThinkingPart("Hm.", signature="s"), TextPart("Kept.")], metadata=mark),
    ]
    history = [
        message
        for n in range(count)
        for message in (
            ModelRequest(parts=[UserPromptPart(f"{n} {LONG}")]),
            ModelResponse(parts=[TextPart(f"{n} {LONG}")]),
        )
    ]
    agent = Agent(FunctionModel(answer), capabilities=[CompactCapability(manager, session_id="s")])
    await agent.run("Go on.", message_history=[*protected, *history])
    assert any(event["event"] == "compact.pruned_messages" for event in events) == (count == 20)
    parts = [part for message in sent for part in message.parts]
    for part in (part for message in protected for part in message.parts):
        assert any(part is sent_part for sent_part in parts)
