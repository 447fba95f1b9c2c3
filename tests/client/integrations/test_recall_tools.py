"""`recall_tool` of each integration: two users under one session id, through the framework's own agent and tool type.

Each user's conversation starts with a file that only they have read. Ten more files push it out of the prompt, and
then the scripted model recalls it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, FunctionTool, Runner, function_tool, set_trace_processors
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tracing import set_tracing_disabled
from compact import CompactError, CompactManager
from compact.integrations import agents_sdk, anthropic, generic, langchain, langgraph, openai, pydantic_ai
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import create_react_agent
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import Tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
LONG = "lorem ipsum dolor " * 60
FILES = 10
USERS = ("ALICE", "BOB")
QUERY = {"query": "code ALICE-4711 BOB-4711"}


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    """Enable tracing without a processor, so that nothing is uploaded to OpenAI."""
    set_tracing_disabled(False)
    set_trace_processors([])
    yield
    set_trace_processors([])


def read_file(user: str, number: int) -> str:
    return f"The code of {user} is {user}-4711." if number == 0 else f"{user} {number}: {LONG}"


def steps() -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that the model makes."""
    return [*(("read", {"number": number}) for number in range(FILES)), ("recall", QUERY)]


class ScriptedChat(GenericFakeChatModel):
    """A LangChain model that makes the scripted calls. `prompts` are the requests it received."""

    messages: Any = iter(())
    prompts: list[list[BaseMessage]] = []

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.prompts.append(list(messages))
        return super()._generate(messages, *args, **kwargs)


def scripted_chat() -> ScriptedChat:
    calls = [
        AIMessage("", tool_calls=[{"id": f"c{number}", "name": name, "args": arguments}])
        for number, (name, arguments) in enumerate(steps())
    ]
    return ScriptedChat(messages=iter([*calls, AIMessage("done")]), prompts=[])


async def run_agents_sdk(manager: CompactManager, user: str) -> tuple[str, str]:
    @function_tool
    def read(number: int) -> str:
        """Read a file."""
        return read_file(user, number)

    tool = agents_sdk.recall_tool(manager, session_id="s")
    assert isinstance(tool, FunctionTool)
    calls: list[Any] = [
        [function_call(name, arguments, call_id=f"{user}{n}")] for n, (name, arguments) in enumerate(steps())
    ]
    model = ScriptedModel([*calls, [assistant_message("done")]])
    agent = Agent(name="coder", tools=[read, tool], model=model)
    result = await Runner.run(agent, f"I am {user}.", max_turns=30, **agents_sdk.compacting(manager, session_id="s"))
    return str(result.to_input_list()[-2]["output"]), str(model.calls[-2].input)


def _langchain_tools(user: str, tool: BaseTool) -> list[Any]:
    def read(number: int) -> str:
        """Read a file."""
        return read_file(user, number)

    assert isinstance(tool, BaseTool)
    assert list(tool.tool_call_schema.model_json_schema()["properties"]) == ["query"]
    return [read, tool]


def _recall_result(messages: list[BaseMessage]) -> str:
    return next(message.text for message in messages if isinstance(message, ToolMessage) and message.name == "recall")


async def run_langchain(manager: CompactManager, user: str) -> tuple[str, str]:
    model = scripted_chat()
    tools = _langchain_tools(user, langchain.recall_tool(manager))
    agent = create_agent(model, tools, middleware=[langchain.CompactMiddleware(manager)])
    config: Any = {"configurable": {"thread_id": "s"}, "recursion_limit": 100}
    result = await agent.ainvoke({"messages": [HumanMessage(f"I am {user}.")]}, config)
    return _recall_result(result["messages"]), str(model.prompts[-2])


async def run_langgraph(manager: CompactManager, user: str) -> tuple[str, str]:
    model = scripted_chat()
    tools = _langchain_tools(user, langgraph.recall_tool(manager))
    agent = create_react_agent(model, tools, pre_model_hook=langgraph.pre_model_hook(manager))
    config: Any = {"configurable": {"thread_id": "s"}, "recursion_limit": 100}
    result = await agent.ainvoke({"messages": [HumanMessage(f"I am {user}.")]}, config)
    return _recall_result(result["messages"]), str(model.prompts[-2])


async def run_pydantic_ai(manager: CompactManager, user: str) -> tuple[str, str]:
    prompts: list[str] = []
    script = steps()

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        prompts.append(str(messages))
        if len(prompts) > len(script):
            return ModelResponse(parts=[TextPart("done")])
        name, arguments = script[len(prompts) - 1]
        return ModelResponse(parts=[ToolCallPart(name, arguments, f"c{len(prompts)}")])

    def read(number: int) -> str:
        """Read a file."""
        return read_file(user, number)

    tool = pydantic_ai.recall_tool(manager, session_id="s")
    assert isinstance(tool, Tool)
    capability = pydantic_ai.CompactCapability(manager, session_id="s")
    agent = PydanticAgent(FunctionModel(answer), tools=[read, tool], capabilities=[capability])
    result = await agent.run(f"I am {user}.")
    parts = (part for message in result.all_messages() for part in message.parts)
    recalled = next(part for part in parts if isinstance(part, ToolReturnPart) and part.tool_name == "recall")
    return str(recalled.content), prompts[-2]


async def _run_loop(manager: CompactManager, user: str, recall: Any) -> tuple[str, str]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"I am {user}."}]
    prompt: list[Any] = []
    for number in range(FILES):
        prompt = await manager.apreflight("s", messages)
        await asyncio.sleep(0)
        function = {"name": "read", "arguments": json.dumps({"number": number})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": read_file(user, number)})
    prompt = await manager.apreflight("s", messages)
    await asyncio.sleep(0)
    recalled = recall()
    return (await recalled if asyncio.iscoroutine(recalled) else recalled), str(prompt)


async def run_openai(manager: CompactManager, user: str) -> tuple[str, str]:
    tool = openai.recall_tool(manager, "s")
    assert json.loads(json.dumps(tool))["function"]["parameters"]["required"] == ["query"]
    assert openai.recall_tool(manager, "s", api="responses")["name"] == "recall"
    return await _run_loop(manager, user, lambda: tool.arun(json.dumps(QUERY)))


async def run_anthropic(manager: CompactManager, user: str) -> tuple[str, str]:
    tool = anthropic.recall_tool(manager, lambda: "s")
    assert tool["input_schema"]["type"] == "object"
    return await _run_loop(manager, user, lambda: tool.arun(QUERY))


async def run_generic(manager: CompactManager, user: str) -> tuple[str, str]:
    recall = generic.recall_tool(manager, lambda: "s")
    assert recall.__name__ == "recall"
    return await _run_loop(manager, user, lambda: recall(QUERY["query"]))


RUNS = [run_agents_sdk, run_langchain, run_langgraph, run_pydantic_ai, run_openai, run_anthropic, run_generic]


@pytest.mark.req("A-REC-1")
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
async def test_each_user_recalls_only_their_own_conversation(
    run: Any, manager: CompactManager, events: list[Any]
) -> None:
    results = await asyncio.gather(*(run(manager, user) for user in USERS))
    for user, (recalled, prompt) in zip(USERS, results, strict=True):
        other = next(name for name in USERS if name != user)
        assert f"{user}-4711." in recalled
        assert f"{other}-4711." not in recalled
        assert "[Recall]" in prompt and "`recall`" in prompt
    assert sum(event["event"] == "compact.recall" for event in events) == len(USERS)


async def test_a_failing_recall_does_not_fail_the_run(manager: CompactManager, capsys: Any) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no disk")

    tool = openai.recall_tool(SimpleNamespace(recall=broken, arecall=broken, enable_recall=lambda name: None), "s")  # type: ignore[arg-type]
    assert "failed" in tool.run("not json")
    assert "failed" in await tool.arun({"query": "x"})
    assert "no disk" in capsys.readouterr().err


@pytest.mark.parametrize("limits", [{"limit": 0}, {"max_tokens": 0}, {"limit": -1}])
def test_a_tool_that_could_return_nothing_is_not_created(limits: dict[str, int], manager: CompactManager) -> None:
    with pytest.raises(CompactError, match="positive whole numbers"):
        openai.recall_tool(manager, "s", **limits)
    assert "[Recall]" not in str(manager.preflight("s", [{"role": "user", "content": LONG} for _ in range(30)]))
