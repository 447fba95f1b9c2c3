"""The OpenAI Agents SDK with its scripted model: compaction, recovery, tracing and failures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from agents import Agent, RunConfig, RunHooks, Runner, SQLiteSession, Usage, function_tool, set_trace_processors
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.tracing import set_tracing_disabled
from compact import CallbackExporter, CompactConfig, CompactManager
from compact.integrations.agents_sdk import (
    AriadneTracingProcessor,
    CompactingModel,
    agents_filter,
    compacting,
    compaction_tool,
)
from receiver import Receiver, eventually


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    """Enable tracing without a processor, so that nothing is uploaded to OpenAI."""
    set_tracing_disabled(False)
    set_trace_processors([])
    yield
    set_trace_processors([])


@function_tool
def read(path: str) -> str:
    """Read a file."""
    return f"{path}: " + "lorem ipsum dolor " * 60


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


def assert_paired(items: list[Any]) -> None:
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert sorted(calls) == sorted(outputs)


def read_calls(count: int, prefix: str = "c") -> list[Any]:
    steps: list[Any] = [[function_call("read", {"path": f"file{n}.py"}, call_id=f"{prefix}{n}")] for n in range(count)]
    return [*steps, [assistant_message("done")]]


@pytest.mark.req("P-KR-6", "S-SDK-1")
async def test_a_long_run_is_compacted_before_the_model_call(manager: CompactManager, events: list[Any]) -> None:
    """The model receives a summary and complete tool pairs. The result is the same as without compaction."""
    model = ScriptedModel(read_calls(12))
    agent = Agent(name="coder", instructions="Read files.", tools=[read], model=model)
    result = await Runner.run(agent, "Read twelve files.", max_turns=20, **compacting(manager, session_id="s1"))
    assert result.final_output == "done"
    assert len(model.calls) == 13
    sent = model.calls[-1].input
    assert len(sent) < len(result.to_input_list())
    assert any("<COMPACT-SUMMARY" in str(item.get("content")) for item in sent)
    for call in model.calls:
        assert_paired(call.input)
    assert "compact.pruned_messages" in names(events)
    assert all(event["session_id"] == "s1" for event in events)
    # The SDK keeps the full history.
    assert len(result.to_input_list()) == 1 + 2 * 12 + 1


async def test_a_streamed_run_is_compacted(manager: CompactManager, events: list[Any]) -> None:
    """Each turn has parallel tool calls, and no pair is split."""
    steps: list[Any] = [
        [function_call("read", {"path": f"{n}{x}.py"}, call_id=f"c{n}{x}") for x in "ab"] for n in range(6)
    ]
    model = ScriptedModel([*steps, [assistant_message("done")]])
    agent = Agent(name="coder", tools=[read], model=model)
    result = Runner.run_streamed(agent, "Go.", max_turns=20, **compacting(manager))
    async for _ in result.stream_events():
        pass
    assert result.final_output == "done"
    for call in model.calls:
        assert_paired(call.input)
    assert "compact.pruned_messages" in names(events)


async def test_an_sdk_session_provides_the_session_id_and_keeps_the_full_history(
    manager: CompactManager, events: list[Any]
) -> None:
    """The history stays complete over several runs."""
    session = SQLiteSession("my-session")
    for run in range(3):
        agent = Agent(name="coder", tools=[read], model=ScriptedModel(read_calls(4, prefix=f"run{run}-")))
        await Runner.run(agent, "Again.", session=session, **compacting(manager, session=session))
    assert {event["session_id"] for event in events} == {"my-session"}
    assert len(await session.get_items()) == 3 * 10
    assert "compact.pruned_messages" in names(events)
    session.close()


async def test_a_handoff_keeps_the_memory(manager: CompactManager, events: list[Any]) -> None:
    """A second agent continues in the middle of a long run. No tool pair is split."""
    second = ScriptedModel(read_calls(6))
    writer = Agent(name="writer", tools=[read], model=second)
    first = ScriptedModel([*read_calls(6)[:-1], [function_call("transfer_to_writer", {}, call_id="h1")]])
    coder = Agent(name="coder", tools=[read], model=first, handoffs=[writer])
    result = await Runner.run(coder, "Go.", max_turns=30, **compacting(manager, session_id="s"))
    assert result.last_agent is writer
    for call in [*first.calls, *second.calls]:
        assert_paired(call.input)
    assert "compact.pruned_messages" in names(events)


async def test_reasoning_items_stay_with_what_follows_them(manager: CompactManager) -> None:
    """A reasoning item never loses the item that must follow it."""
    history: list[Any] = []
    for n in range(8):
        history += [
            {"role": "user", "content": f"question {n} " + "word " * 100},
            {"type": "reasoning", "id": f"rs_{n}", "summary": []},
            {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": f"answer {n} " + "word " * 100, "annotations": []}]},
        ]  # fmt: skip
    model = ScriptedModel([[assistant_message("done")]])
    agent = Agent(name="thinker", model=model)
    await Runner.run(agent, [*history, {"role": "user", "content": "last"}], **compacting(manager))
    sent = model.calls[0].input
    assert len(sent) < len(history)
    for index, item in enumerate(sent):
        if item.get("type") == "reasoning":
            assert sent[index + 1].get("id") == item["id"].replace("rs_", "msg_")


class Overflow(Exception):
    code = "context_length_exceeded"


@pytest.mark.req("R-OVER-1")
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_overflow_is_recovered(is_streamed: bool, manager: CompactManager, events: list[Any]) -> None:
    """The call is repeated without the oldest messages. Tool pairs stay complete."""
    history: list[Any] = [{"role": "user", "content": "start"}]
    for n in range(6):
        history += [
            {"type": "function_call", "call_id": f"c{n}", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{n}", "output": "text " * 20},
        ]
    error = Overflow("This model's maximum context length is 500 tokens, you requested 600")
    model = ScriptedModel([error, [assistant_message("done")]])
    agent = Agent(name="a", tools=[read])
    extra = compacting(manager, session_id="s", run_config=RunConfig(model=model))
    if is_streamed:
        streamed = Runner.run_streamed(agent, history, **extra)
        async for _ in streamed.stream_events():
            pass
        assert streamed.final_output == "done"
    else:
        assert (await Runner.run(agent, history, **extra)).final_output == "done"
    assert len(model.calls[1].input) < len(model.calls[0].input)
    assert_paired(model.calls[1].input)
    assert "compact.overflow_recovered" in names(events)


async def test_other_errors_are_raised_unchanged(manager: CompactManager) -> None:
    """A rate limit is not an overflow, so there is no second call."""
    model = ScriptedModel([RuntimeError("rate limit"), [assistant_message("never")]])
    with pytest.raises(RuntimeError, match="rate limit"):
        await Runner.run(Agent(name="a"), "x", **compacting(manager, run_config=RunConfig(model=model)))
    assert len(model.calls) == 1


async def test_a_failed_compaction_does_not_fail_the_run(
    manager: CompactManager, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a broken estimator, the input is sent unchanged and stderr has one redacted line."""

    class BrokenEstimator:
        def estimate(self, messages: Any, model: str) -> int:
            raise ValueError("cannot count, api_key=sk-abc123")

    broken = CompactManager(CompactConfig(model="m", max_context_tokens=2000, token_estimator=BrokenEstimator()))
    model = ScriptedModel([[assistant_message("done")]])
    result = await Runner.run(Agent(name="a", model=model), "hello", **compacting(broken))
    assert result.final_output == "done"
    stderr = capsys.readouterr().err
    assert "sending the request unchanged" in stderr
    assert "sk-abc123" not in stderr


async def test_reported_usage_corrects_the_next_estimate(manager: CompactManager, events: list[Any]) -> None:
    """The estimate after a call is based on the provider's count. The user's own hooks still run."""
    called: list[str] = []

    class UserHooks(RunHooks[Any]):
        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            called.append("llm_end")

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            called.append("tool_start")

    usage = Usage(requests=1, input_tokens=400, output_tokens=5, total_tokens=405)
    first = ModelStep(output=[function_call("read", {"path": "a"}, call_id="c1")], usage=usage)
    model = ScriptedModel([first, [assistant_message("done")]])
    agent = Agent(name="a", tools=[read], model=model)
    await Runner.run(agent, "hello", **compacting(manager, hooks=UserHooks()))
    assert called == ["llm_end", "tool_start", "llm_end"]
    estimates = [event["properties"] for event in events if event["event"] == "compact.token_estimate"]
    assert [estimate["source"] for estimate in estimates] == ["estimate", "provider"]


@pytest.mark.req("S-SDK-1")
async def test_events_are_custom_spans_of_the_sdk(manager: CompactManager, events: list[Any]) -> None:
    """Each event is a custom span under the SDK's turn. The exported events have the same trace and parent."""

    class Recorder(AriadneTracingProcessor):
        def __init__(self) -> None:
            self.spans: list[Any] = []

        def on_trace_start(self, trace: Any) -> None: ...
        def on_trace_end(self, trace: Any) -> None: ...
        def on_span_start(self, span: Any) -> None: ...
        def on_span_end(self, span: Any) -> None:
            self.spans.append(span)

        def shutdown(self) -> None: ...
        def force_flush(self) -> None: ...

    recorder = Recorder()
    set_trace_processors([recorder])
    agent = Agent(name="a", model=ScriptedModel([[assistant_message("done")]]))
    await Runner.run(agent, "hello", **compacting(manager))
    spans = {span.span_data.name: span for span in recorder.spans if span.span_data.type == "custom"}
    decision = spans["compact.trigger_decision"]
    assert decision.span_data.data["triggered"] is False
    turn = next(span for span in recorder.spans if span.span_data.type == "turn")
    assert decision.parent_id == turn.span_id
    check = next(event for event in events if event["event"] == "compact.check")
    assert (check["trace_id"], check["parent_id"]) == (turn.trace_id, turn.span_id)


async def test_compaction_works_without_tracing(manager: CompactManager, events: list[Any]) -> None:
    """Without a trace there are no custom spans, but the events are still exported."""
    agent = Agent(name="a", model=ScriptedModel([[assistant_message("done")]]))
    config = RunConfig(tracing_disabled=True)
    result = await Runner.run(agent, "hello", **compacting(manager, session_id="s", run_config=config))
    assert result.final_output == "done"
    assert "compact.check" in names(events)


async def test_the_sdks_own_spans_are_sent_to_ariadne(manager: CompactManager, events: list[Any]) -> None:
    """Each span is sent when it starts and when it ends, redacted. Custom spans of our events are not sent again."""
    sent: list[dict[str, Any]] = []
    processor = AriadneTracingProcessor(CallbackExporter(sent.append))
    set_trace_processors([processor])

    @function_tool
    def login(password: str) -> str:
        """Log in."""
        return "token=abcdefgh12345678"

    call = function_call("login", {"password": "hunter2"}, call_id="c1")
    agent = Agent(name="coder", tools=[login], model=ScriptedModel([[call], [assistant_message("done")]]))
    config = RunConfig(workflow_name="Login", group_id="group-1")
    await Runner.run(agent, "hello", **compacting(manager, run_config=config))
    processor.force_flush()
    eventually(lambda: sum(1 for e in sent if e["type"] == "trace") == 2)
    processor.shutdown()
    trace = next(e for e in sent if e["type"] == "trace")
    assert (trace["name"], trace["group_id"]) == ("Login", "group-1")
    ended = {e["kind"]: e for e in sent if e["type"] == "span" and "ended_at" in e}
    assert {"task", "agent", "turn", "tool"} <= ended.keys()
    assert ended["tool"]["name"] == "login"
    assert ended["tool"]["payload"]["input"] == '{"password":"<REDACTED>"}'
    assert "abcdefgh" not in str(sent)
    assert "hunter2" not in str(sent)
    assert not [e for e in sent if str(e.get("name", "")).startswith("compact.")]
    started = [e["span_id"] for e in sent if e["type"] == "span" and "ended_at" not in e]
    assert sorted(started) == sorted(e["span_id"] for e in sent if e["type"] == "span" and "ended_at" in e)
    # Without a session id, the session is the trace's group.
    assert {event["session_id"] for event in events} == {"group-1"}


@pytest.mark.req("A-ID-4")
async def test_a_server_managed_conversation_is_not_compacted(
    manager: CompactManager, events: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The server keeps the history. One warning says so."""
    model = ScriptedModel(read_calls(3))
    agent = Agent(name="a", tools=[read], model="named")

    class Provider:
        def get_model(self, name: str | None) -> Any:
            return model

        async def aclose(self) -> None: ...

    config = RunConfig(model_provider=Provider())  # type: ignore[arg-type]
    await Runner.run(agent, "hello", conversation_id="conv_1", **compacting(manager, session_id="s", run_config=config))
    assert capsys.readouterr().err.count("nothing to compact") == 1
    warnings = [event for event in events if event["event"] == "compact.warning"]
    assert [event["properties"]["code"] for event in warnings] == ["server_managed"]


def test_a_session_that_also_compacts_causes_a_warning(
    manager: CompactManager, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only one of the two would have an effect."""

    class OpenAIResponsesCompactionSession:
        session_id = "s"

        async def run_compaction(self) -> None: ...

    compacting(manager, session=OpenAIResponsesCompactionSession())
    assert "also compacts" in capsys.readouterr().err


async def test_the_filter_and_the_model_each_work_alone(manager: CompactManager, events: list[Any]) -> None:
    """Each of the two sees the whole request."""
    history: list[Any] = [{"role": "user", "content": "word " * 400} for _ in range(5)]
    model = ScriptedModel([[assistant_message("one")], [assistant_message("two")]])
    config = RunConfig(call_model_input_filter=agents_filter(manager, session_id="filter"))
    await Runner.run(Agent(name="a", model=model), list(history), run_config=config)
    wrapped = CompactingModel(model, manager, session_id="model")
    await Runner.run(Agent(name="a", model=wrapped, tools=[read]), list(history))
    assert all(len(call.input) < len(history) for call in model.calls)
    estimates = {e["session_id"]: e["properties"] for e in events if e["event"] == "compact.token_estimate"}
    assert estimates["model"]["breakdown"]["tools_schema"] > 0


async def test_the_agent_can_ask_for_a_compaction(manager: CompactManager, events: list[dict[str, Any]]) -> None:
    """The next check compacts, although the usage is below the threshold, and records the agent's reason."""
    session = SQLiteSession("asking")
    steps = [ModelStep([function_call("read", {"path": f"{n}.py"}, call_id=f"c{n}")]) for n in range(3)]
    ask = ModelStep([function_call("compact_context", {"reason": "the files are read"}, call_id="ask")])
    model = ScriptedModel([*steps, ask, ModelStep([assistant_message("done")])])
    agent = Agent(name="reader", model=model, tools=[read, compaction_tool(manager, session=session)])
    result = await Runner.run(agent, "Read three files.", session=session, **compacting(manager, session=session))
    assert result.final_output == "done"
    fired = [event["properties"] for event in events if event["event"] == "compact.trigger_decision"]
    assert [decision["triggered"] for decision in fired] == [False, False, False, False, True]
    assert fired[-1]["note"] == "the agent asked: the files are read"
    assert "compact.pruned_messages" in names(events)
    session.close()


LAST_EVENTS = """
from agents import Agent, Runner, set_trace_processors
set_trace_processors([])
from agents.testing import ModelStep, ScriptedModel, assistant_message
from compact import AriadneExporter, CompactConfig, CompactManager
from compact.integrations.agents_sdk import compacting, trace_to_ariadne
exporter = AriadneExporter(spool_dir=None)
manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=16_000, exporter=exporter))
trace_to_ariadne(exporter)
agent = Agent(name="reader", model=ScriptedModel([ModelStep(output=[assistant_message("Done.")])]))
Runner.run_sync(agent, "Begin.", **compacting(manager, session_id="s1"))
"""


def test_last_events_are_sent_when_the_process_ends() -> None:
    """The SDK shuts its processors down after the exporter has closed. The end of the trace arrives anyway."""
    with Receiver() as receiver:
        environment = {**os.environ, "ARIADNE_URL": receiver.url, "ARIADNE_API_KEY": "key"}
        result = subprocess.run(
            [sys.executable, "-c", LAST_EVENTS], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert "dropped" not in result.stderr
        (trace_end,) = [event for event in receiver.events if event.get("type") == "trace" and event.get("ended_at")]
    assert trace_end["trace_id"]
