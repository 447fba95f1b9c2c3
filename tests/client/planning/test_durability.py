"""What may be cleared, and when."""

from __future__ import annotations

import json

import pytest
from builders import Recorder, tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy
from compact.adapters.artifact_stores import MemoryArtifactStore
from compact.messages import Message, ToolCall
from compact.planning.durability import (
    DeterminismMetadata,
    ToolDurability,
    ToolDurabilityPolicy,
    ToolResultEnvelope,
    declared_policy,
    envelope_for,
    may_clear,
    tool_durability,
)
from compact.planning.non_replayable import non_replayable_ids


def results(durability, output, *, ladder=("clear", "drop"), **options):
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
def test_ephemeral_results_are_cleared_and_keep_their_call():
    """Noise gives way to a placeholder in its own place; the call stays paired."""
    manager, recorder, out = results(ToolDurabilityPolicy(ToolDurability.EPHEMERAL), lambda n: f"line {n} " * 250)
    assert any(item["content"] == "[run: success]" for item in out)
    assert len(out) == 13
    assert recorder.named("compact.cleared")
    assert not manager.plan("s").drops


@pytest.mark.req("D-ENV-1")
def test_an_anchoring_result_keeps_its_key_fields():
    """Cleared, it still says what its policy preserves."""
    policy = ToolDurabilityPolicy(ToolDurability.ANCHORING, ("order_id", "status"))
    output = lambda n: json.dumps({"order_id": f"ORD-{n}", "status": "paid", "log": "x y " * 300})  # noqa: E731
    _, _, out = results(policy, output)
    assert '[run: success]\nKey data: {"order_id": "ORD-0", "status": "paid"}' in [item["content"] for item in out]


def quotes(words: int, *, tool_durability, window=6000, pairs=6, renderer="layered", **options):
    """A conversation with price quotes, the oldest things in it, then talk until it must be compacted."""
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
def test_a_result_that_cannot_be_had_again_stays_where_no_store_takes_it(renderer):
    """Word for word, with its call, in order; the talk around it is summarised. Other results are not spared."""
    manager, recorder, out, before = quotes(20, tool_durability=NON_REPLAYABLE, renderer=renderer)
    assert manager.plan("s").summarizations
    assert outputs(out) == outputs(before)
    rules = {entry.rule for entry in manager.plan("s").ledger if entry.role == "tool"}
    assert rules <= {"non-replayable", "tool pair 1 of 1"}
    assert not recorder.named("compact.warning")
    _, _, others, _ = quotes(20, tool_durability=ToolDurabilityPolicy(), renderer=renderer)
    assert len(outputs(others)) <= 1


@pytest.mark.req("D-ENV-1")
def test_results_that_cannot_be_had_again_give_way_oldest_first_and_with_a_warning():
    """Only what the budget cannot hold; the warning names the messages."""
    manager, recorder, out, before = quotes(400, tool_durability=NON_REPLAYABLE, pairs=9)
    kept = outputs(out)
    assert 1 < len(kept) < 9
    assert kept == outputs(before)[-len(kept) :]
    [warning] = [
        event["properties"]
        for event in recorder.named("compact.warning")
        if event["properties"]["code"] == "irreplaceable_compacted"
    ]
    assert warning["severity"] == "high"
    gone = [entry.id for entry in manager.plan("s").ledger if entry.role == "tool" and entry.fate != "kept"]
    assert warning["details"]["message_ids"] == gone
    assert len(gone) == 9 - len(kept)


@pytest.mark.req("D-ENV-1")
def test_a_result_that_cannot_be_had_again_goes_to_the_store_where_there_is_one():
    """Written out with a pointer if it is worth one; a short one stays."""
    store = MemoryArtifactStore()
    manager, _, out, _ = quotes(200, tool_durability=NON_REPLAYABLE, artifact_store=store)
    assert len(manager.plan("s").externalizations) == 5
    assert len(outputs(out)) == 1
    manager, _, out, before = quotes(5, tool_durability=NON_REPLAYABLE, artifact_store=store)
    assert not manager.plan("s").externalizations
    assert outputs(out) == outputs(before)


@pytest.mark.req("D-ENV-1")
def test_a_result_that_cannot_be_had_again_is_never_cleared():
    """Without room to keep it, it goes on to the next rung, not through the third."""
    _, recorder, _ = results(NON_REPLAYABLE, lambda n: "price 17 " * 250)
    assert not recorder.named("compact.cleared")


@pytest.mark.req("D-ENV-2")
def test_a_replayable_result_is_cleared_only_while_its_source_is_unchanged(tmp_path):
    """Same hash: may go. Changed, unknown or unreadable: counts as changed."""
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
def test_a_tool_declares_what_its_results_are_worth():
    """The decorator is found on the function, also through wrappers, and an envelope says it by itself."""

    @tool_durability(ToolDurability.ANCHORING, preserve_fields=["order_id"])
    def create_order(): ...

    assert declared_policy(create_order).must_preserve_fields == ("order_id",)
    assert declared_policy(len) is None
    envelope = ToolResultEnvelope("create_order", "c", key_fields={"order_id": 7})
    assert envelope.to_cleared_placeholder() == '[create_order: success]\nKey data: {"order_id": 7}'


@pytest.mark.req("D-DROP-1", "D-LAD-1")
def test_a_dropped_span_leaves_an_index():
    """The last rung removes the oldest, whole, and keeps what they were about."""
    manager, recorder, out = results(ToolDurabilityPolicy(), lambda n: f"warehouse report {n} " * 150, ladder=("drop",))
    drop = manager.plan("s").drops[0]
    assert "warehouse" in drop.index.keywords
    assert drop.index.summary
    assert drop.index.timestamp.endswith("Z")
    assert recorder.named("compact.dropped")
    assert len(out) < 13


def parallel_results(**durability):
    """Anthropic messages that each answer two calls, of `first` and of `second`, compacted by clearing alone."""
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
def test_results_that_share_a_message_are_cleared_each_by_its_own_tool():
    """Two results in one Anthropic message: each placeholder names its tool and keeps its key fields."""
    shown = parallel_results(
        first=ToolDurabilityPolicy(ToolDurability.EPHEMERAL),
        second=ToolDurabilityPolicy(ToolDurability.ANCHORING, ("order_id",)),
    )
    assert shown["first-0"] == "[first: success]"
    assert shown["second-0"] == '[second: success]\nKey data: {"order_id": "ORD-0"}'


@pytest.mark.req("D-ENV-1", "D-ENV-2")
def test_a_result_that_may_not_be_cleared_stays_beside_one_that_is():
    """Its neighbour in the same message goes, and it is still there word for word."""
    shown = parallel_results(
        first=ToolDurabilityPolicy(ToolDurability.EPHEMERAL),
        second=ToolDurabilityPolicy(ToolDurability.REPLAYABLE),
    )
    assert shown["first-0"] == "[first: success]"
    assert json.loads(shown["second-0"])["log"] == "x y " * 100


@pytest.mark.req("D-ENV-1")
def test_a_message_holds_a_result_that_cannot_be_had_again_wherever_it_stands_in_it():
    """The second of two results in a message is looked at too."""
    messages = [
        Message("assistant", "", tool_calls=(ToolCall("a", "noise"), ToolCall("b", "quote"))),
        Message("tool", "both", tool_call_id="a", also_answers=("b",), id="m2"),
    ]
    assert non_replayable_ids(messages, {"quote": ToolDurabilityPolicy(ToolDurability.NON_REPLAYABLE)}) == {"m2"}
