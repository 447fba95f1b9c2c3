"""LangGraph: the hook in a real graph, and LangChain message objects in `preflight`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from compact import CallbackExporter, CompactConfig, CompactManager, CompactPolicy
from compact.integrations.langgraph import pre_model_hook
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
LONG = "lorem ipsum dolor " * 60


class ScriptedModel(GenericFakeChatModel):
    """Calls a tool `steps` times after each user message, and records what it receives."""

    messages: Any = iter(())
    received: list[list[BaseMessage]] = []
    steps: int = 8

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self.received.append(messages)
        done = messages[-1].text.partition("step ")[2][:1] if isinstance(messages[-1], ToolMessage) else "0"
        response = AIMessage("Done.")
        if int(done or 0) < self.steps:
            step = int(done or 0) + 1
            response = AIMessage(
                "", tool_calls=[{"id": f"c{len(self.received)}", "name": "read", "args": {"step": step}}]
            )
        return ChatResult(generations=[ChatGeneration(message=response)])


def read(step: int) -> str:
    """Read a file."""
    return f"step {step} {LONG}"


def new_agent(manager: CompactManager, model: ScriptedModel, **options: Any) -> Any:
    hook = pre_model_hook(manager, tools=[read], **options)
    return create_react_agent(model, [read], pre_model_hook=hook, checkpointer=InMemorySaver())


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}, "recursion_limit": 100}


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_hook_compacts_the_request_and_not_the_state(
    is_async: bool, manager: CompactManager, events: list[Any]
) -> None:
    """The checkpoint keeps the full history, and the session is the thread."""
    model = ScriptedModel(received=[])
    agent = new_agent(manager, model)
    state: Any = {"messages": [HumanMessage("Read eight files.")]}
    result = await agent.ainvoke(state, thread("t1")) if is_async else agent.invoke(state, thread("t1"))
    assert len(result["messages"]) == 18
    assert len(model.received[-1]) < 14
    assert any("<COMPACT-SUMMARY" in message.text for message in model.received[-1])
    assert all(isinstance(message, BaseMessage) for message in model.received[-1])
    assert manager.plan("t1") is not None
    assert {event["session_id"] for event in events} == {"t1"}


async def test_two_threads_at_once_stay_apart(manager: CompactManager) -> None:
    """Two users say the same to one graph. Neither sees the other's secret."""
    model = ScriptedModel(received=[])
    agent = new_agent(manager, model)

    async def converse(user: str) -> None:
        await agent.ainvoke({"messages": [HumanMessage(f"Hello. My password is SECRET-{user}.")]}, thread(user))
        await agent.ainvoke({"messages": [HumanMessage("Read eight files again.")]}, thread(user))

    await asyncio.gather(converse("a"), converse("b"))
    texts = ["\n".join(message.text for message in request) for request in model.received]
    assert not [text for text in texts if "SECRET-a" in text and "SECRET-b" in text]
    assert sum("SECRET-a" in text for text in texts) == sum("SECRET-b" in text for text in texts) == len(texts) / 2


@pytest.mark.req("A-ID-1")
def test_runs_without_a_thread_are_sessions_of_their_own(
    manager: CompactManager, events: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs without a thread id share nothing, and one warning says how to name the session."""
    model = ScriptedModel(received=[])
    hook = pre_model_hook(manager)
    agent = create_react_agent(model, [read], pre_model_hook=hook)
    for user in ("a", "b"):
        agent.invoke({"messages": [HumanMessage("Hello."), HumanMessage(f"SECRET-{user}")]}, {"recursion_limit": 50})
    texts = ["\n".join(message.text for message in request) for request in model.received]
    assert not [text for text in texts if "SECRET-a" in text and "SECRET-b" in text]
    assert len({event["session_id"] for event in events}) == 2
    assert capsys.readouterr().err.count("to pre_model_hook.") == 1


def test_a_session_id_may_come_from_the_config(manager: CompactManager, events: list[Any]) -> None:
    """A function of the config names the session, for example by tenant and thread."""
    agent = new_agent(manager, ScriptedModel(received=[]), session_id=lambda config: config["configurable"]["tenant"])
    config = thread("t1")
    config["configurable"]["tenant"] = "acme"
    agent.invoke({"messages": [HumanMessage("Read.")]}, config)
    assert {event["session_id"] for event in events} == {"acme"}


def tool_history() -> list[BaseMessage]:
    messages: list[BaseMessage] = [SystemMessage("Read."), HumanMessage("Read ten files.")]
    for n in range(10):
        messages += [
            AIMessage("", tool_calls=[{"id": f"c{n}", "name": "read", "args": {"step": n}}]),
            ToolMessage(LONG, tool_call_id=f"c{n}", name="read", status="error"),
        ]
    return messages


def test_preflight_accepts_langchain_messages(manager: CompactManager) -> None:
    """The result is a list of LangChain messages. Unchanged ones are the same objects."""
    history = tool_history()
    sent = manager.preflight("s", history)
    assert len(sent) < len(history)
    assert all(isinstance(message, BaseMessage) for message in sent)
    assert sent[0] is history[0]
    assert sent[-1] is history[-1]
    assert any(message.text.startswith("<COMPACT-SUMMARY") for message in sent)
    # The plan stays valid while the history grows.
    again = manager.preflight("s", [*history, HumanMessage("Thanks.")])
    assert again[: len(sent)] == sent


@pytest.mark.req("S-PROT-1")
def test_a_protected_message_survives(manager: CompactManager) -> None:
    """The mark is in `additional_kwargs`, which LangChain's models do not send."""
    history = tool_history()
    history.insert(1, HumanMessage("The deadline is 17 May.", additional_kwargs={"protected": True}))
    sent = manager.preflight("s", history)
    assert history[1] in sent
    assert history[2] not in sent or len(sent) < len(history)


def test_a_shortened_result_keeps_its_status_and_name() -> None:
    """Only the text of a long result changes."""
    manager = CompactManager(CompactConfig("gpt-5", 4_000, policy=CompactPolicy(tool_output_max_tokens=200)))
    history = [*tool_history()[:3], ToolMessage("word " * 9_000, tool_call_id="c0", name="read", status="error")]
    result: Any = manager.preflight("s", history)[-1]
    assert (result.name, result.status, result.tool_call_id) == ("read", "error", "c0")
    assert len(result.text) < 9_000


class Incomparable:
    """Like a data frame: `==` has no truth value. Like a lock: it cannot be copied."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("The truth value is ambiguous.")

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot copy")


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_artifact_may_be_any_object(is_async: bool, events: list[Any]) -> None:
    """The history is compacted over several calls, and each result keeps its artifact, also a shortened one."""
    policy = CompactPolicy(tool_output_max_tokens=50, keep_recent_turns=1)
    manager = CompactManager(CompactConfig("gpt-5", 2_000, policy=policy, exporter=CallbackExporter(events.append)))
    hook, artifact = pre_model_hook(manager), Incomparable()
    messages: list[Any] = [HumanMessage("Read the files.", additional_kwargs={"client": object()})]
    config: Any = {"configurable": {"thread_id": "t"}}
    for number in range(12):
        call: Any = {"id": f"c{number}", "name": "read", "args": {"n": number}}
        text = f"{number} {LONG}"
        messages += [
            AIMessage("", tool_calls=[call], response_metadata={"raw": object()}),
            ToolMessage(text, tool_call_id=f"c{number}", name="read", artifact=artifact),
        ]
        state = {"messages": messages}
        sent = (await hook.ainvoke(state, config) if is_async else hook.invoke(state, config))["llm_input_messages"]
        assert sent[-1].artifact is artifact
    assert len(sent) < len(messages)
    assert any(event["event"] == "compact.pruned_messages" for event in events)
    assert not any(event["event"] == "compact.error" for event in events)


def test_a_host_may_mark_a_message_and_drop_what_the_provider_reported(manager: CompactManager) -> None:
    """Marks, ids and reported usage say nothing about who speaks. The plan stays."""
    history = tool_history()
    manager.preflight("s", history)
    plan = manager.plan("s")
    assert plan is not None
    stored: list[Any] = [message.model_copy(update={"response_metadata": {}, "id": None}) for message in history]
    stored[-1] = stored[-1].model_copy(update={"additional_kwargs": {"protected": True}})
    manager.preflight("s", [*stored, HumanMessage("Thanks.")])
    assert manager.plan("s") is plan
