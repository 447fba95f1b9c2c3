"""Plans: precedence, spans, JSON, the log, and concurrent stores."""

from __future__ import annotations

import multiprocessing

import pytest
from builders import Recorder, chat_turns
from compact import CompactConfig, CompactManager, CompactPolicy
from compact.adapters.plan_stores import FileCompactionStore, MemoryCompactionStore
from compact.messages import Message
from compact.messages.span import SpanReference
from compact.planning.log import AgentThread
from compact.planning.plan import (
    ClearRecord,
    CompactionAction,
    CompactionPlan,
    DropRecord,
    ExternalizationRecord,
    SummarizationRecord,
)
from compact.summary.structured_summary import StructuredSummary


def plan_with(**records):
    return CompactionPlan("t", 3, "2026-01-01T00:00:00Z", **records)


def span(*ids):
    return SpanReference(ids, 1, 2)


SUMMARY = StructuredSummary(facts=("x",))


@pytest.mark.req("D-PLAN-1")
def test_overlapping_records_are_resolved_by_precedence():
    """Drop, externalize, summarize, clear, include: the first one wins, and each overlap is a warning."""
    plan = plan_with(
        clearings=(ClearRecord(span("a", "b", "c", "d")),),
        summarizations=(SummarizationRecord(span("b", "c", "d"), SUMMARY),),
        externalizations=(ExternalizationRecord(span("c", "d"), "art-1", SUMMARY),),
        drops=(DropRecord(span("d"), "why"),),
    )
    actions = [plan.get_action(message_id)[0] for message_id in "abcde"]
    assert [action.value for action in actions] == ["clear", "summarize", "externalize", "drop", "include"]
    assert plan.has_overlaps
    assert len(plan.normalization_warnings) == 6
    assert plan.get_action("e") == (CompactionAction.INCLUDE, None)
    assert not plan_with().has_overlaps


@pytest.mark.req("D-PLAN-1")
def test_span_has_ids_ends_and_size():
    """A span needs at least one message."""
    reference = span("a", "b", "c")
    assert (reference.start_message_id, reference.end_message_id, reference.message_count) == ("a", "c", 3)
    assert reference.contains("b")
    assert not reference.contains("z")
    with pytest.raises(ValueError, match="at least one"):
        SpanReference(())


@pytest.mark.req("D-PLAN-1")
def test_plan_round_trips_through_json():
    """All four kinds of records are read back equal, and a newer format is rejected."""
    plan = plan_with(
        clearings=(ClearRecord(span("a"), {"order_id": 7}),),
        summarizations=(SummarizationRecord(span("b"), SUMMARY, 12),),
        externalizations=(ExternalizationRecord(span("c"), "art-1", SUMMARY, "hint", is_folded=True),),
        drops=(DropRecord(span("d"), "why"),),
        session_summary=SUMMARY,
        full_hashes={"short": "full"},
    )
    assert CompactionPlan.from_json(plan.to_json()) == plan
    with pytest.raises(ValueError, match="newer"):
        CompactionPlan.from_dict({**plan.to_dict(), "format": 99})


@pytest.mark.req("D-PLAN-1")
def test_a_plan_of_an_earlier_release_can_be_read():
    """Keys that were added since have their defaults."""
    plan = plan_with(session_summary=SUMMARY)
    added = {"full_hashes", "growth_tokens", "trigger"}
    assert CompactionPlan.from_dict({key: value for key, value in plan.to_dict().items() if key not in added}) == plan


@pytest.mark.req("D-LOG-1")
def test_log_is_append_only():
    """Messages get ids, are stored unchanged and cannot be removed."""
    thread = AgentThread("t")
    message = Message("user", "hi", meta={"k": 1})
    (first,) = thread.append([message], lambda messages: ["abcdef0" for _ in messages])
    message.meta["k"] = 2
    (second,) = thread.append([Message("user", "hi")], lambda messages: ["abcdef0" for _ in messages])
    assert (first.id, second.id) == ("m1-abcdef", "m2-abcdef")
    assert first.id != second.id
    assert first.meta == {"k": 1}
    assert thread.version == len(thread) == 2
    assert thread.get(first.id) is first
    assert not hasattr(thread, "remove")


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    return MemoryCompactionStore() if request.param == "memory" else FileCompactionStore(tmp_path)


@pytest.mark.req("D-CON-1")
def test_conflicting_commit_changes_nothing(store):
    """A commit with an outdated version returns False, and all committed versions can be read."""
    assert store.get_current_plan("t/../x y") == (None, 0)
    assert store.commit_plan("t/../x y", plan_with(step=1), 0)
    assert not store.commit_plan("t/../x y", plan_with(step=9), 0)
    assert not store.commit_plan("t/../x y", plan_with(step=9), 5)
    assert store.commit_plan("t/../x y", plan_with(step=2), 1)
    assert store.get_current_plan("t/../x y")[0].step == 2
    assert store.get_plan("t/../x y", 1).step == 1
    assert store.get_plan("t/../x y", 3) is None
    assert store.get_current_plan("other") == (None, 0)


def _commit_until_version_20(root, name, results):
    store = FileCompactionStore(root)
    wins = 0
    while True:
        _, version = store.get_current_plan("t")
        if version >= 20:
            break
        wins += store.commit_plan("t", plan_with(renderer=name), version)
    results.put((name, wins))


@pytest.mark.req("D-CON-1")
def test_concurrent_processes_never_overwrite_a_plan(tmp_path):
    """Two processes race to version 20. Every version has one author, and the successful commits add up."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [
        context.Process(target=_commit_until_version_20, args=(tmp_path, name, results))
        for name in ("layered", "inplace")
    ]
    for worker in workers:
        worker.start()
    wins = dict(results.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join(60)
    store = FileCompactionStore(tmp_path)
    authors = [store.get_plan("t", version).renderer for version in range(1, 21)]
    assert {name: authors.count(name) for name in wins} == wins
    assert sum(wins.values()) == 20


@pytest.mark.req("D-PLAN-1", "D-CON-1")
def test_plan_with_lone_surrogates_can_be_stored(store):
    """An emoji that was cut in half by a truncation does not cause an encoding error."""
    plan = plan_with(summary_text="cut \ud83d", drops=(DropRecord(span("m1"), "\udfff"),))
    assert store.commit_plan("t\ud83d", plan, 0)
    assert store.get_current_plan("t\ud83d") == (plan, 1)


class UnreachableStore:
    """A plan store whose writes fail, and whose reads fail unless `is_readable` is set."""

    def __init__(self, *, is_readable):
        self.is_readable = is_readable

    def get_current_plan(self, thread_id):
        if not self.is_readable:
            raise OSError("no route to host")
        return None, 0

    def commit_plan(self, thread_id, plan, expected_version):
        raise OSError("no route to host")


class ContestedStore(UnreachableStore):
    """A plan store in which another process always commits first."""

    def commit_plan(self, thread_id, plan, expected_version):
        return False


@pytest.mark.req("D-CON-1")
@pytest.mark.parametrize(
    "plan_store",
    [
        UnreachableStore(is_readable=False),
        UnreachableStore(is_readable=True),
        ContestedStore(is_readable=True),
    ],
)
def test_run_continues_if_the_plan_store_fails(plan_store):
    """The request is compacted, and an event reports that only this process has the plan."""
    recorder = Recorder()
    policy = CompactPolicy(hard_cap_buffer=100)
    config = CompactConfig("gpt-5", 2_000, policy=policy, plan_store=plan_store, exporter=recorder)
    manager = CompactManager(config)
    history = [message.to_dict() for message in chat_turns(60)]
    sent = manager.preflight("s", history)
    assert len(sent) < len(history)
    assert recorder.last("compact.error")["fallback"] == "the plan stays in this process only"
    assert manager.preflight("s", history) == sent
