"""Durability of tool results: when a result is cleared, kept or externalized."""

from __future__ import annotations

import asyncio
import json

import pytest
from builders import Recorder, tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy
from compact.adapters.artifact_stores import MemoryArtifactStore
from compact.messages import Message, ToolCall
from compact.planning.tool_results.durability import (
    DeterminismMetadata,
    ToolDurability,
    ToolDurabilityPolicy,
    ToolResultEnvelope,
    declared_policies,
    declared_policy,
    envelope_for,
    may_clear,
    tool_durability,
)
from compact.planning.tool_results.non_replayable import non_replayable_ids


def compact_tool_results(durability, output, *, ladder=("clear", "drop"), **options):
    """Compact six results of one tool and return the manager, the events and the prompt."""
    policy = CompactPolicy(
        hard_cap_buffer=100, keep_tool_io_pairs=1, keep_recent_turns=1, ladder=ladder, tool_output_truncation="none"
    )
    recorder = Recorder()
    manager = CompactManager(
        CompactConfig("gpt-5", 3000, policy=policy, exporter=recorder, tool_durability={"run": durability}, **options)
    )
    messages = [{"role": "user", "content": "go"}]
    for number in range(6):
        messages += tool_pair(number, output(number))
    return manager, recorder, manager.preflight("s", messages)


@pytest.mark.req("D-ENV-1", "D-LAD-1")
def test_ephemeral_results_are_cleared_and_stay_paired():
    """A placeholder replaces the result, and the call keeps its output."""
    manager, recorder, out = compact_tool_results(
        ToolDurabilityPolicy(ToolDurability.EPHEMERAL), lambda n: f"line {n} " * 250
    )
    assert any(item["content"] == "[run: success]" for item in out)
    assert len(out) == 13
    assert recorder.of("compact.cleared")
    assert not manager.plan("s").drops


@pytest.mark.req("D-ENV-1", "D-LAD-1")
def test_ephemeral_results_are_cleared_before_anything_is_summarized():
    """If that is enough, no summary is written. The default ladder is used."""
    ladder = CompactPolicy().ladder
    manager, _, out = compact_tool_results(
        ToolDurabilityPolicy(ToolDurability.EPHEMERAL), lambda n: f"line {n} " * 250, ladder=ladder
    )
    plan = manager.plan("s")
    assert plan.clearings and not plan.summarizations and len(out) == 13
    assert {entry.fate for entry in plan.ledger if entry.role == "tool"} == {"cleared", "kept"}


@pytest.mark.req("D-ENV-1", "D-LAD-1")
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
@pytest.mark.parametrize("with_store", [True, False])
def test_ephemeral_results_are_never_summarized(renderer, with_store):
    """Their calls are summarized with the rest. The summary has nothing of the results, and the ledger says cleared."""
    store = {"artifact_store": MemoryArtifactStore()} if with_store else {}
    policy = ToolDurabilityPolicy(ToolDurability.EPHEMERAL, externalize_threshold_tokens=100)
    manager, _, out, messages = compact_quotes(100, tool_durability=policy, renderer=renderer, **store)
    plan = manager.plan("s")
    # The newest pair is part of the recent window.
    tools = [entry for entry in plan.ledger if entry.role == "tool"][:5]
    assert plan.summarizations and {entry.fate for entry in tools} == {"cleared"}
    assert all(entry.rule.startswith("ephemeral result of run") for entry in tools)
    assert not any(f"Q-{number}" in json.dumps(out) for number in range(5))
    assert not plan.externalizations and not plan.has_overlaps
    # A restarted process must know the messages that left the prompt.
    assert {entry.id for entry in tools} <= {entry.id for entry in plan.absorbed}
    assert manager.preflight("s", messages) == out


@pytest.mark.req("D-ENV-1")
def test_cleared_anchoring_result_keeps_its_key_fields():
    """The placeholder contains the fields that the policy preserves."""
    policy = ToolDurabilityPolicy(ToolDurability.ANCHORING, ("order_id", "status"))
    output = lambda n: json.dumps({"order_id": f"ORD-{n}", "status": "paid", "log": "x y " * 300})  # noqa: E731
    _, _, out = compact_tool_results(policy, output)
    assert '[run: success]\nKey data: {"order_id": "ORD-0", "status": "paid"}' in [item["content"] for item in out]


def compact_quotes(words: int, *, tool_durability, window=6000, pairs=6, renderer="layered", **options):
    """Compact a conversation that starts with price quotes from a tool and continues with 20 long turns."""
    recorder = Recorder()
    policy = CompactPolicy(hard_cap_buffer=100, keep_tool_io_pairs=1, keep_recent_turns=1, renderer=renderer)
    config = CompactConfig(
        "gpt-5", window, policy=policy, exporter=recorder, tool_durability={"run": tool_durability}, **options
    )
    manager = CompactManager(config)
    messages = [{"role": "user", "content": "go"}]
    for number in range(pairs):
        messages += tool_pair(number, f"quote Q-{number}: price 17 " + "per unit " * words)
    for number in range(20):
        messages += [
            {"role": "user", "content": f"tell me more about part {number} " + "and its use " * 50},
            {"role": "assistant", "content": f"part {number} " + "is as useful as it was " * 30},
        ]
    return manager, recorder, manager.preflight("s", messages), messages


def outputs(messages) -> list[str]:
    return [item["content"] for item in messages if item["role"] == "tool"]


NON_REPLAYABLE = ToolDurabilityPolicy(ToolDurability.NON_REPLAYABLE)


@pytest.mark.req("D-ENV-1")
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
def test_non_replayable_result_stays_without_an_artifact_store(renderer):
    """Non-replayable results stay verbatim and in order, while other results are summarized."""
    manager, recorder, out, before = compact_quotes(20, tool_durability=NON_REPLAYABLE, renderer=renderer)
    assert manager.plan("s").summarizations
    assert outputs(out) == outputs(before)
    rules = {entry.rule for entry in manager.plan("s").ledger if entry.role == "tool"}
    assert rules <= {"non-replayable", "tool pair 1 of 1"}
    assert not recorder.of("compact.warning")
    _, _, others, _ = compact_quotes(20, tool_durability=ToolDurabilityPolicy(), renderer=renderer)
    assert len(outputs(others)) <= 1


@pytest.mark.req("D-ENV-1")
def test_oldest_non_replayable_results_are_evicted_with_a_warning():
    """If not all fit, the newest stay and the warning lists the others."""
    manager, recorder, out, before = compact_quotes(400, tool_durability=NON_REPLAYABLE, pairs=9)
    kept = outputs(out)
    assert 1 < len(kept) < 9
    assert kept == outputs(before)[-len(kept) :]
    [warning] = [
        event["properties"]
        for event in recorder.of("compact.warning")
        if event["properties"]["code"] == "irreplaceable_compacted"
    ]
    assert warning["severity"] == "high"
    evicted = [entry.id for entry in manager.plan("s").ledger if entry.role == "tool" and entry.fate != "kept"]
    assert warning["details"]["message_ids"] == evicted
    assert len(evicted) == 9 - len(kept)


@pytest.mark.req("D-ENV-1")
def test_non_replayable_result_is_externalized_with_an_artifact_store():
    """A long result is externalized. A result shorter than a pointer stays."""
    store = MemoryArtifactStore()
    manager, _, out, _ = compact_quotes(200, tool_durability=NON_REPLAYABLE, artifact_store=store)
    assert len(manager.plan("s").externalizations) == 5
    assert len(outputs(out)) == 1
    manager, _, out, before = compact_quotes(5, tool_durability=NON_REPLAYABLE, artifact_store=store)
    assert not manager.plan("s").externalizations
    assert outputs(out) == outputs(before)


@pytest.mark.req("D-ENV-1")
def test_non_replayable_result_is_never_cleared():
    """A result that does not fit skips the clear rung."""
    _, recorder, _ = compact_tool_results(NON_REPLAYABLE, lambda n: "price 17 " * 250)
    assert not recorder.of("compact.cleared")


@pytest.mark.req("D-ENV-2")
def test_replayable_result_is_cleared_only_if_its_source_is_unchanged(tmp_path):
    """A changed, unknown or unreadable source prevents clearing."""
    path = tmp_path / "data.txt"
    path.write_text("one")
    policy = ToolDurabilityPolicy(ToolDurability.REPLAYABLE, capture_determinism=DeterminismMetadata.of_file)
    call = ToolCall("c", "read", json.dumps({"path": str(path)}))
    output = Message("tool", "one", {"determinism": DeterminismMetadata.of_file(path)}, tool_call_id="c")
    envelope = envelope_for(call, output, {"read": policy})
    assert may_clear(envelope, call, policy)
    path.write_text("two")
    assert not may_clear(envelope, call, policy)
    path.unlink()
    assert not may_clear(envelope, call, policy)
    unknown = envelope_for(call, Message("tool", "one", tool_call_id="c"), {"read": policy})
    assert not may_clear(unknown, call, policy)
    assert DeterminismMetadata(etag="a").has_changed(DeterminismMetadata(mtime=1.0))
    assert not DeterminismMetadata(etag="a").has_changed(DeterminismMetadata(etag="a", mtime=2.0))
    assert DeterminismMetadata(version="1").has_changed(DeterminismMetadata(version="1"))


@pytest.mark.req("D-ENV-1")
def test_tool_declares_the_durability_of_its_results():
    """The decorator sets a policy on the function, and an envelope renders its key fields."""

    @tool_durability(ToolDurability.ANCHORING, preserve_fields=["order_id"])
    def create_order(): ...

    assert declared_policy(create_order).must_preserve_fields == ("order_id",)
    assert declared_policy(len) is None
    envelope = ToolResultEnvelope("create_order", "c", key_fields={"order_id": 7})
    assert envelope.to_cleared_placeholder() == '[create_order: success]\nKey data: {"order_id": 7}'


@pytest.mark.req("D-DROP-1", "D-LAD-1")
def test_dropped_span_leaves_an_index():
    """The drop rung removes the oldest units and keeps keywords, a summary and a timestamp."""
    manager, recorder, out = compact_tool_results(
        ToolDurabilityPolicy(), lambda n: f"warehouse report {n} " * 150, ladder=("drop",)
    )
    drop = manager.plan("s").drops[0]
    assert "warehouse" in drop.index.keywords
    assert drop.index.summary
    assert drop.index.timestamp.endswith("Z")
    assert recorder.of("compact.dropped")
    assert len(out) < 13


def parallel_results(**durability):
    """Clear Anthropic messages that each contain a result of `first` and of `second`, and return the results by id."""
    policy = CompactPolicy(hard_cap_buffer=100, keep_recent_turns=1, keep_tool_io_pairs=1, ladder=("clear",))
    manager = CompactManager(CompactConfig("gpt-5", 4500, policy=policy, tool_durability=durability))
    messages = []
    for number in range(6):
        text = {"first": "noise " * 400, "second": json.dumps({"order_id": f"ORD-{number}", "log": "x y " * 100})}
        calls = [{"type": "tool_use", "id": f"{name}-{number}", "name": name, "input": {}} for name in text]
        blocks = [
            {"type": "tool_result", "tool_use_id": f"{name}-{number}", "content": content}
            for name, content in text.items()
        ]
        messages += [
            {"role": "user", "content": f"Go {number}."},
            {"role": "assistant", "content": calls},
            {"role": "user", "content": blocks},
        ]
    out = manager.preflight("s", messages)
    assert manager.plan("s").clearings
    return {
        block["tool_use_id"]: block["content"]
        for item in out
        for block in item["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    }


@pytest.mark.req("D-ENV-1")
def test_results_in_one_message_are_cleared_separately():
    """Each placeholder has the name and the key fields of its own tool."""
    shown = parallel_results(
        first=ToolDurabilityPolicy(ToolDurability.EPHEMERAL),
        second=ToolDurabilityPolicy(ToolDurability.ANCHORING, ("order_id",)),
    )
    assert shown["first-0"] == "[first: success]"
    assert shown["second-0"] == '[second: success]\nKey data: {"order_id": "ORD-0"}'


@pytest.mark.req("D-ENV-1", "D-ENV-2")
def test_result_that_may_not_be_cleared_stays_next_to_a_cleared_one():
    """Clearing one result of a message leaves the other verbatim."""
    shown = parallel_results(
        first=ToolDurabilityPolicy(ToolDurability.EPHEMERAL),
        second=ToolDurabilityPolicy(ToolDurability.REPLAYABLE),
    )
    assert shown["first-0"] == "[first: success]"
    assert json.loads(shown["second-0"])["log"] == "x y " * 100


@pytest.mark.req("D-ENV-1")
def test_every_result_of_a_message_is_checked_for_replayability():
    """The second of two results in a message may be the non-replayable one."""
    messages = [
        Message("assistant", "", tool_calls=(ToolCall("a", "noise"), ToolCall("b", "quote"))),
        Message("tool", "both", tool_call_id="a", also_answers=("b",), id="m2"),
    ]
    assert non_replayable_ids(messages, {"quote": ToolDurabilityPolicy(ToolDurability.NON_REPLAYABLE)}) == {"m2"}


def test_a_source_that_cannot_be_checked_is_a_warning():
    """The result stays, and one event says why."""

    def broken(**arguments):
        raise OSError("disk gone")

    recorder = Recorder()
    policy = ToolDurabilityPolicy(ToolDurability.REPLAYABLE, capture_determinism=broken)
    manager = CompactManager(
        CompactConfig(
            "gpt-5",
            2000,
            policy=CompactPolicy(hard_cap_buffer=100, ladder=("clear", "drop")),
            exporter=recorder,
            tool_durability={"run": policy},
        )
    )
    messages = [Message("user", "go")]
    for number in range(12):
        call = ToolCall(f"c{number}", "run", "{}")
        meta = {"determinism": DeterminismMetadata(content_hash="1")}
        messages += [
            Message("assistant", "", tool_calls=(call,)),
            Message("tool", "x " * 200, meta, tool_call_id=call.id),
        ]
    manager.preflight("s", messages)
    warnings = [event["properties"] for event in recorder.of("compact.warning")]
    assert [warning["code"] for warning in warnings] == ["source_unverified"]
    assert "disk gone" in warnings[0]["message"]


@pytest.mark.req("K-DUR-1", "D-ENV-2")
@pytest.mark.parametrize("is_changed", [False, True])
def test_the_source_is_fingerprinted_when_the_result_arrives(tmp_path, is_changed):
    """A replayable result is cleared while its file is unchanged, and stays once the file has changed."""
    file = tmp_path / "notes.txt"
    file.write_text("first")
    policy = ToolDurabilityPolicy(
        ToolDurability.REPLAYABLE, capture_determinism=lambda n: DeterminismMetadata.of_file(file)
    )
    options = CompactPolicy(hard_cap_buffer=100, keep_tool_io_pairs=1, keep_recent_turns=1, ladder=("clear", "drop"))
    manager = CompactManager(CompactConfig("gpt-5", 3000, policy=options, tool_durability={"run": policy}))
    messages = [{"role": "user", "content": "start"}]
    manager.preflight("s", messages)
    messages += tool_pair(0, "old notes " + "word " * 700)
    manager.preflight("s", messages)
    if is_changed:
        file.write_text("second")
    fates = set()
    for number in range(1, 9):
        messages += tool_pair(number, f"answer {number} " + "word " * 300)
        manager.preflight("s", messages)
        if manager.plan("s"):
            fates |= {entry.fate for entry in manager.plan("s").ledger if entry.id.startswith("m3-")}
    assert fates
    assert ("cleared" in fates) is not is_changed


@pytest.mark.req("K-DUR-1")
def test_durability_is_found_on_the_tools_of_every_framework():
    """The decorator on a function works through LangChain tools and the tools of a pydantic-ai run."""
    langchain = pytest.importorskip("langchain_core.tools")
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models.test import TestModel

    @tool_durability(ToolDurability.NON_REPLAYABLE)
    def roll(sides: int) -> str:
        """Roll a die."""
        return "4"

    @tool_durability(ToolDurability.EPHEMERAL)
    async def look(path: str) -> str:
        """Look at a file."""
        return "text"

    tools = [langchain.tool(roll), langchain.tool(look)]
    policies = declared_policies({tool.name: tool for tool in tools})
    assert {name: policy.durability.value for name, policy in policies.items()} == {
        "roll": "non_replayable",
        "look": "ephemeral",
    }
    seen = []

    class Spy(AbstractCapability):
        async def prepare_model_request(self, ctx, request_context):
            seen.append(declared_policies(ctx.tool_manager.tools))
            return request_context

    asyncio.run(pydantic_ai.Agent(TestModel(), tools=[roll, look], capabilities=[Spy()]).run("hi"))
    assert seen[0] == policies
