"""A plan is visible once it is committed, and a commit that fails costs no second summary."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from builders import Recorder, SpySummarizer, chat_turns, small_manager
from compact import CompactManager, Message
from compact.adapters.plan_stores import FileCompactionStore, MemoryCompactionStore

TENANTS = ("acme", "globex")
SYSTEM = Message("system", "You are careful.")


def history_of(tenant: str, turns: int = 30) -> list[Message]:
    return [SYSTEM, Message("user", f"The code word of {tenant} is WORD-{tenant.upper()}."), *chat_turns(turns)]


class RejectingStore:
    """A plan store that rejects commits, and looks at the sessions while it is asked."""

    def __init__(self, *, accepts: bool = False) -> None:
        self.manager: CompactManager
        self.accepts = accepts
        self.views: list[tuple[Any, str, Any]] = []
        self.plans: dict[str, list[Any]] = {tenant: [] for tenant in TENANTS}

    def look(self) -> None:
        """Read all sessions from another thread, and those of this thread also in it."""
        with ThreadPoolExecutor(1) as pool:
            for tenant in TENANTS:
                plan = pool.submit(self.manager.plan, tenant).result()
                report = pool.submit(self.manager.report, tenant).result()
                self.views.append((plan, report, self.manager.remember(tenant)))

    def get_current_plan(self, thread_id):
        return None, 0

    def commit_plan(self, thread_id, plan, expected_version):
        self.look()
        self.plans[thread_id].append(plan)
        return self.accepts


class AsyncRejectingStore(RejectingStore):
    """The same, with coroutines: the session is read on the event loop's thread and on another one."""

    async def get_current_plan(self, thread_id):
        return None, 0

    async def commit_plan(self, thread_id, plan, expected_version):
        await asyncio.sleep(0)
        self.look()
        self.plans[thread_id].append(plan)
        return self.accepts


def assert_nothing_uncommitted_was_visible(store: RejectingStore, manager: CompactManager) -> None:
    """Each view is that of the plan before the commit: none, and for the second tenant none of the first one's."""
    committed = {tenant: manager.plan(tenant) for tenant in TENANTS}
    assert len(store.views) == len(TENANTS) * sum(len(plans) for plans in store.plans.values())
    first_commits = len(store.plans["acme"])
    for number, (plan, report, memory) in enumerate(store.views):
        tenant, is_after_acme = TENANTS[number % 2], number // 2 >= first_commits
        expected = committed["acme"] if tenant == "acme" and is_after_acme else None
        assert plan is expected
        assert memory.plan is expected
        if expected is None:
            assert report == "nothing was compacted yet"
            assert memory.summary is None
            assert not any(message.is_summary for message in memory.pinned)
    for tenant, other in (TENANTS, TENANTS[::-1]):
        assert committed[tenant] is store.plans[tenant][-1]
        assert f"WORD-{other.upper()}" not in committed[tenant].to_json()


@pytest.mark.req("A-ONE-2")
@pytest.mark.parametrize("accepts", [False, True])
def test_an_uncommitted_plan_is_not_visible(accepts):
    """Neither another thread nor the store itself sees a plan that the store has not accepted."""
    store = RejectingStore(accepts=accepts)
    manager = store.manager = small_manager(plan_store=store)
    for tenant in TENANTS:
        assert len(manager.preflight(tenant, history_of(tenant))) < 40
    assert_nothing_uncommitted_was_visible(store, manager)


@pytest.mark.req("A-ONE-2")
@pytest.mark.parametrize("accepts", [False, True])
async def test_an_uncommitted_plan_is_not_visible_to_async_callers(accepts):
    store = AsyncRejectingStore(accepts=accepts)
    manager = store.manager = small_manager(plan_store=store)
    for tenant in TENANTS:
        assert len(await manager.apreflight(tenant, history_of(tenant))) < 40
    assert_nothing_uncommitted_was_visible(store, manager)


def test_the_second_plan_is_not_visible_before_its_commit():
    """Until then, the first plan and its summary are what a reader sees."""
    store = RejectingStore(accepts=True)
    manager = store.manager = small_manager(plan_store=store)
    history = history_of("acme")
    manager.preflight("acme", history)
    first = manager.plan("acme")
    store.views.clear()
    manager.preflight("acme", [*history, *chat_turns(30, start=30)])
    plan, _, memory = store.views[0]
    assert manager.plan("acme").step == 2
    assert plan is memory.plan is first
    assert memory.summary == first.summary_text


def test_a_damaged_plan_store_costs_one_summary(tmp_path):
    """The store rejects each commit, because it cannot say which version it has."""

    class Damaged(FileCompactionStore):
        def get_current_plan(self, thread_id):
            plan, version = super().get_current_plan(thread_id)
            return plan, version + 7

    recorder, summarizer = Recorder(), SpySummarizer()
    manager = small_manager(recorder, summarizer=summarizer, plan_store=Damaged(tmp_path))
    for tenant in TENANTS:
        summarizer.seen.clear()
        manager.preflight(tenant, history_of(tenant))
        assert len(summarizer.seen) == 1
        assert manager.plan(tenant).summary_text
    assert recorder.last("compact.error")["fallback"] == "the plan stays in this process only"
    assert not recorder.of("compact.summary_discarded")
    assert len(recorder.of("compact.summary_created")) == len(TENANTS)


class FasterProcess(MemoryCompactionStore):
    """A plan store in which another process commits its plan of the same conversation first, once."""

    def __init__(self, plan: Any) -> None:
        super().__init__()
        self.plan = plan

    def commit_plan(self, thread_id, plan, expected_version):
        if self.plan is not None:
            other, self.plan = self.plan, None
            super().commit_plan(thread_id, other, expected_version)
        return super().commit_plan(thread_id, plan, expected_version)


@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
def test_a_summary_is_used_again_beside_the_plan_of_a_faster_process(renderer):
    """The other process had compacted less, so the request still has to be compacted."""
    policy = {"renderer": renderer, "story_pct": 0.0}
    history = history_of("acme", 30)
    other = small_manager(summarizer=SpySummarizer("what the other process knew"), policy=policy)
    other.manual_compact("acme", history[:16])
    recorder, summarizer = Recorder(), SpySummarizer()
    store = FasterProcess(other.plan("acme"))
    manager = small_manager(recorder, summarizer=summarizer, plan_store=store, policy=policy)
    prompt = manager.preflight("acme", history)
    assert len(summarizer.seen) == 1
    assert "read the stored plan" in recorder.last("compact.error")["fallback"]
    assert not recorder.of("compact.summary_discarded")
    assert len(prompt) < len(history)
    assert prompt[-1].text == history[-1].text
    assert store.get_current_plan("acme")[1] == 2
    assert store.get_current_plan("acme")[0] == manager.plan("acme")
    assert "a short summary" in manager.plan("acme").summary_text
    assert manager.preflight("acme", history) == prompt
