"""Plans as data."""

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
def test_precedence_settles_overlaps_and_says_so():
    """Drop over externalize over summarize over clear over include; every overlap is a warning."""
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
def test_a_span_lists_its_messages():
    """A span knows its ids, ends and size, and is never empty."""
    found = span("a", "b", "c")
    assert (found.start_message_id, found.end_message_id, found.message_count) == ("a", "c", 3)
    assert found.contains("b")
    assert not found.contains("z")
    with pytest.raises(ValueError, match="at least one"):
        SpanReference(())


@pytest.mark.req("D-PLAN-1")
def test_every_record_survives_json():
    """All four kinds of records, read back, are equal; a plan from the future is refused."""
    plan = plan_with(
        clearings=(ClearRecord(span("a"), {"order_id": 7}),),
        summarizations=(SummarizationRecord(span("b"), SUMMARY, 12),),
        externalizations=(ExternalizationRecord(span("c"), "art-1", SUMMARY, "hint", is_folded=True),),
        drops=(DropRecord(span("d"), "why"),),
        session_summary=SUMMARY,
    )
    assert CompactionPlan.from_json(plan.to_json()) == plan
    with pytest.raises(ValueError, match="newer"):
        CompactionPlan.from_dict({**plan.to_dict(), "format": 99})


@pytest.mark.req("D-LOG-1")
def test_the_log_only_grows():
    """Messages get ids, are stored unchanged and cannot be removed."""
    thread = AgentThread("t")
    mine = Message("user", "hi", meta={"k": 1})
    first = thread.append(mine)
    mine.meta["k"] = 2
    second = thread.append(Message("user", "hi"))
    assert first.id != second.id
    assert first.meta == {"k": 1}
    assert thread.version == len(thread) == 2
    assert thread.get(first.id) is first
    assert not hasattr(thread, "remove")


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    return MemoryCompactionStore() if request.param == "memory" else FileCompactionStore(tmp_path)


@pytest.mark.req("D-CON-1")
def test_a_conflicting_commit_changes_nothing(store):
    """A commit against an old version returns False; the winner stays, and every version can be read."""
    assert store.get_current_plan("t/../x y") == (None, 0)
    assert store.commit_plan("t/../x y", plan_with(step=1), 0)
    assert not store.commit_plan("t/../x y", plan_with(step=9), 0)
    assert not store.commit_plan("t/../x y", plan_with(step=9), 5)
    assert store.commit_plan("t/../x y", plan_with(step=2), 1)
    assert store.get_current_plan("t/../x y")[0].step == 2
    assert store.get_plan("t/../x y", 1).step == 1
    assert store.get_plan("t/../x y", 3) is None
    assert store.get_current_plan("other") == (None, 0)


def _race(root, name, results):
    store = FileCompactionStore(root)
    won = 0
    while True:
        _, version = store.get_current_plan("t")
        if version >= 20:
            break
        won += store.commit_plan("t", plan_with(renderer=name), version)
    results.put((name, won))


@pytest.mark.req("D-CON-1")
def test_two_processes_never_overwrite_each_other(tmp_path):
    """Two processes race to twenty versions: each version has one author, and the wins add up."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_race, args=(tmp_path, name, results)) for name in ("layered", "inplace")]
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
def test_a_plan_of_any_text_can_be_stored(store):
    """Half a character of an emoji, cut off by somebody's truncation, does not end in an encoding error."""
    plan = plan_with(summary_text="cut \ud83d", drops=(DropRecord(span("m1"), "\udfff"),))
    assert store.commit_plan("t\ud83d", plan, 0)
    assert store.get_current_plan("t\ud83d") == (plan, 1)


class Away:
    """A plan store whose database is away, from the start or when it is written to."""

    def __init__(self, *, reads):
        self.reads = reads

    def get_current_plan(self, thread_id):
        if not self.reads:
            raise OSError("no route to host")
        return None, 0

    def commit_plan(self, thread_id, plan, expected_version):
        raise OSError("no route to host")


class Contested(Away):
    """A plan store to which somebody else is always quicker."""

    def commit_plan(self, thread_id, plan, expected_version):
        return False


@pytest.mark.req("D-CON-1")
@pytest.mark.parametrize("plan_store", [Away(reads=False), Away(reads=True), Contested(reads=True)])
def test_a_store_that_fails_costs_the_plan_but_not_the_run(plan_store):
    """The request is compacted all the same, and an event says that only this process knows the plan."""
    recorder = Recorder()
    policy = CompactPolicy(hard_cap_buffer=100)
    config = CompactConfig("gpt-5", 2_000, policy=policy, plan_store=plan_store, exporter=recorder)
    manager = CompactManager(config)
    history = [message.to_dict() for message in chat_turns(60)]
    sent = manager.preflight("s", history)
    assert len(sent) < len(history)
    assert recorder.last("compact.error")["fallback"] == "the plan is known in this process only"
    assert manager.preflight("s", history) == sent
