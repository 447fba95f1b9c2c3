"""LangChain, pydantic-ai, Anthropic messages and OpenAI chat completions, each with its real package."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compact import CallbackExporter, CompactConfig, CompactManager, CompactPolicy, NoopEstimator
from receiver import Answer, Receiver

POLICY = CompactPolicy(keep_recent_turns=1, keep_tool_io_pairs=1, hard_cap_buffer=50, min_gain_pct=0.0)
LONG = "lorem ipsum dolor " * 60


@pytest.fixture
def events() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def manager(events: list[dict[str, Any]]) -> CompactManager:
    exporter = CallbackExporter(events.append)
    return CompactManager(
        CompactConfig("gpt-5", 2_000, policy=POLICY, token_estimator=NoopEstimator(), exporter=exporter)
    )


def has_compaction(events: list[dict[str, Any]]) -> bool:
    return any(event["event"] == "compact.pruned_messages" for event in events)


class TestLangChain:
    """Uses `create_agent` with a scripted chat model."""

    @staticmethod
    def agent(manager: CompactManager, count: int) -> tuple[Any, list[list[Any]]]:
        from compact.integrations.langchain import CompactMiddleware
        from langchain.agents import create_agent
        from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
        from langchain_core.messages import AIMessage
        from langgraph.checkpoint.memory import InMemorySaver

        sent: list[list[Any]] = []

        class Model(GenericFakeChatModel):
            def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
                return self

            def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
                sent.append(list(messages))
                return super()._generate(messages, *args, **kwargs)

        def read(path: str) -> str:
            """Read a file."""
            return f"{path}: {LONG}"

        calls = [
            AIMessage("", tool_calls=[{"id": f"c{n}", "name": "read", "args": {"path": f"{n}.py"}}])
            for n in range(count)
        ]
        model = Model(messages=iter([*calls, AIMessage("done")]))
        agent = create_agent(
            model, [read], middleware=[CompactMiddleware(manager)], system_prompt="Read.", checkpointer=InMemorySaver()
        )
        return agent, sent

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_long_runs_are_compacted(self, is_async: bool, manager: CompactManager, events: list[Any]) -> None:
        """The request is short with complete tool pairs. The state keeps everything. The session is the thread."""
        agent, sent = self.agent(manager, 10)
        config = {"configurable": {"thread_id": "thread-1"}, "recursion_limit": 50}
        question = {"messages": [{"role": "user", "content": "Read ten files."}]}
        result = await agent.ainvoke(question, config) if is_async else agent.invoke(question, config)
        assert result["messages"][-1].content == "done"
        assert len(result["messages"]) == 22
        assert has_compaction(events)
        assert {event["session_id"] for event in events} == {"thread-1"}
        last = sent[-1]
        assert len(last) < 22
        assert any("<COMPACT-SUMMARY" in str(message.content) for message in last)
        called = [call["id"] for message in last for call in getattr(message, "tool_calls", ())]
        assert called == [message.tool_call_id for message in last if message.type == "tool"]

    @pytest.mark.req("R-OVER-1")
    def test_an_overflow_is_recovered(self, manager: CompactManager, events: list[Any]) -> None:
        """The handler is called with fewer messages after each overflow."""
        from compact.integrations.langchain import CompactMiddleware
        from langchain.agents.middleware.types import ModelRequest, ModelResponse
        from langchain_core.messages import AIMessage, HumanMessage

        request_sizes: list[int] = []

        def handler(request: Any) -> Any:
            request_sizes.append(len(request.messages))
            if len(request_sizes) < 3:
                raise ValueError("This model's maximum context length is 100 tokens, you requested 150")
            return ModelResponse(result=[AIMessage("done")])

        messages = [HumanMessage(f"{n} " + "word " * 10) for n in range(12)]
        request = ModelRequest(model=None, messages=messages)  # type: ignore[arg-type]
        CompactMiddleware(manager, session_id="s").wrap_model_call(request, handler)
        assert request_sizes[0] == 12
        assert request_sizes[2] < request_sizes[1] < request_sizes[0]
        assert any(event["event"] == "compact.overflow_recovered" for event in events)

    def test_unchanged_messages_are_the_same_objects(self) -> None:
        """Ids, artifacts and other attributes of LangChain messages are preserved."""
        from compact.integrations.langchain import _ChatView
        from langchain_core.messages import HumanMessage, ToolMessage

        messages = [HumanMessage("a", id="1"), ToolMessage("b", tool_call_id="c", artifact={"x": 1})]
        view = _ChatView(messages)
        assert [a is b for a, b in zip(view.messages(view.items), messages, strict=True)] == [True, True]


class TestPydanticAI:
    """Uses an agent with a `FunctionModel`."""

    @pytest.mark.parametrize("is_streamed", [False, True])
    async def test_long_runs_are_compacted(self, is_streamed: bool, manager: CompactManager, events: list[Any]) -> None:
        """The request is short and its tool pairs are complete. The history keeps everything."""
        from compact.integrations.pydantic_ai import CompactCapability
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
        from pydantic_ai.models.function import DeltaToolCall, FunctionModel

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
        assert has_compaction(events)
        parts = [part for message in sent[-1] for part in message.parts]
        calls = [part.tool_call_id for part in parts if isinstance(part, ToolCallPart)]
        assert calls == [part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)]
        assert len(sent[-1]) < 20
        assert any("<COMPACT-SUMMARY" in str(getattr(part, "content", "")) for part in parts)

    @pytest.mark.req("R-OVER-1")
    async def test_an_overflow_is_recovered(self, manager: CompactManager, events: list[Any]) -> None:
        """The model is called with fewer messages after each overflow, and the run succeeds."""
        from compact.integrations.pydantic_ai import CompactCapability
        from pydantic_ai import Agent
        from pydantic_ai.exceptions import ModelHTTPError
        from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
        from pydantic_ai.models.function import FunctionModel

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


OVERFLOW = "This model's maximum context length is 100 tokens, you requested 150"
ANTHROPIC = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn",
    "stop_sequence": None, "content": [{"type": "text", "text": "done"}],
    "usage": {"input_tokens": 10, "output_tokens": 1},
}  # fmt: skip
CHAT = {
    "id": "1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "done"}}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101},
}  # fmt: skip


def anthropic_history() -> list[dict[str, Any]]:
    history: list[dict[str, Any]] = [{"role": "user", "content": "Read ten files."}]
    for n in range(10):
        use = {"type": "tool_use", "id": f"c{n}", "name": "read", "input": {"path": f"{n}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": LONG}
        history += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return history


class TestAnthropic:
    """Uses the real client over HTTP."""

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_long_histories_are_compacted(
        self, is_async: bool, manager: CompactManager, events: list[Any]
    ) -> None:
        """Every tool_use has its tool_result in the next message, and the first message is from the user."""
        import anthropic
        from compact.integrations.anthropic import AnthropicMessages

        history = anthropic_history()
        arguments: dict[str, Any] = {"model": "claude", "max_tokens": 10, "system": "Read.", "messages": history}
        with Receiver(Answer(body=ANTHROPIC)) as receiver:
            if is_async:
                async with anthropic.AsyncAnthropic(api_key="k", base_url=receiver.url) as aclient:
                    answer = await AnthropicMessages(aclient, manager, session_id="s").acreate(**arguments)
            else:
                with anthropic.Anthropic(api_key="k", base_url=receiver.url) as client:
                    answer = AnthropicMessages(client, manager, session_id="s").create(**arguments)
            sent = json.loads(receiver.requests[0].raw)["messages"]
        assert answer.content[0].text == "done"
        assert has_compaction(events)
        assert len(sent) < len(history) == 21
        assert sent[0]["role"] == "user"
        for index, message in enumerate(sent):
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block["type"] == "tool_use":
                    assert sent[index + 1]["content"][0]["tool_use_id"] == block["id"]
                if block["type"] == "tool_result":
                    assert sent[index - 1]["content"][-1]["id"] == block["tool_use_id"]

    @pytest.mark.req("R-OVER-1")
    @pytest.mark.parametrize("is_async", [False, True])
    async def test_an_overflow_is_recovered(self, is_async: bool, events: list[Any]) -> None:
        """Anthropic's error message is recognized, and the call is repeated with fewer messages."""
        import anthropic
        from compact.integrations.anthropic import AnthropicMessages

        config = CompactConfig("claude", 100_000, exporter=CallbackExporter(events.append))
        manager = CompactManager(config)
        text = "prompt is too long: 210000 tokens > 200000 maximum"
        rejection = {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
        arguments: dict[str, Any] = {"model": "claude", "max_tokens": 10, "messages": anthropic_history()}
        with Receiver(Answer(400, body=rejection), Answer(body=ANTHROPIC)) as receiver:
            if is_async:
                async with anthropic.AsyncAnthropic(api_key="k", base_url=receiver.url) as aclient:
                    answer = await AnthropicMessages(aclient, manager, session_id="s").acreate(**arguments)
            else:
                with anthropic.Anthropic(api_key="k", base_url=receiver.url) as client:
                    answer = AnthropicMessages(client, manager, session_id="s").create(**arguments)
            first, second = (len(json.loads(request.raw)["messages"]) for request in receiver.requests)
        assert answer.content[0].text == "done"
        assert second < first == 21
        assert any(event["event"] == "compact.overflow_recovered" for event in events)


class TestChatCompletions:
    """Uses the real OpenAI client over HTTP."""

    def test_long_histories_are_compacted(self, manager: CompactManager, events: list[Any]) -> None:
        """The request is in the chat format. The caller's list is unchanged."""
        import openai
        from compact.integrations.openai import ChatCompletions

        history: list[dict[str, Any]] = [{"role": "system", "content": "Read."}]
        for n in range(10):
            call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
            history += [
                {"role": "user", "content": f"file {n}"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{n}", "content": LONG},
            ]
        before = json.dumps(history)
        with Receiver(Answer(body=CHAT)) as receiver, openai.OpenAI(api_key="k", base_url=receiver.url) as client:
            chat = ChatCompletions(client, manager, session_id="s")
            assert chat.create(model="m", messages=history).choices[0].message.content == "done"
            sent = json.loads(receiver.requests[0].raw)["messages"]
        assert json.dumps(history) == before
        assert sent[0] == history[0]
        assert "<COMPACT-SUMMARY" in sent[1]["content"]
        assert has_compaction(events)
