"""Concurrent callers of one manager: event loops, waiting tasks, and exporters that call back."""

from __future__ import annotations

import asyncio
import threading

import pytest
from builders import Recorder, SpySummarizer, chat_turns, small_manager
from compact import CallbackExporter, CompactError, InsufficientBudget, Message, TiktokenEstimator
from compact.adapters.plan_stores import MemoryCompactionStore

SYSTEM = Message("system", "You are careful.")


async def test_async_calls_return_the_same_messages_as_sync_calls():
    """`apreflight` and `amanual_compact` await an async summarizer. A sync call inside a loop falls back to pruning."""

    class Async(SpySummarizer):
        async def summarize(self, messages, style, keep_keys):
            return super().summarize(messages, style, keep_keys)

    messages = [SYSTEM, *chat_turns(30)]
    assert await small_manager().apreflight("s", messages) == small_manager().preflight("s", messages)
    out = await small_manager(summarizer=Async("awaited")).amanual_compact("s", messages)
    assert "awaited" in out[1].text
    # A sync call inside a loop cannot await, so it compacts without a summary.
    assert len(small_manager(summarizer=Async("awaited")).preflight("s", messages)) == 13


def test_an_async_summarizer_works_in_a_sync_program():
    """Outside an event loop, a sync call runs the coroutine to its end."""

    class Async(SpySummarizer):
        async def summarize(self, messages, style, keep_keys):
            return super().summarize(messages, style, keep_keys)

    assert "awaited" in small_manager(summarizer=Async("awaited")).preflight("s", [SYSTEM, *chat_turns(30)])[1].text


async def test_an_async_storage_receives_every_event():
    """The events of a failed compaction are awaited too."""

    class Slow:
        def __init__(self):
            self.events = []

        async def save_transcript(self, session_id, transcript):
            await asyncio.sleep(0)

        async def save_summary(self, session_id, summary, step):
            await asyncio.sleep(0)

        async def save_event(self, session_id, event):
            await asyncio.sleep(0)
            self.events.append(event["event"])

    storage, recorder = Slow(), Recorder()
    manager = small_manager(recorder, storage=storage)
    await manager.apreflight("s", [SYSTEM, *chat_turns(30)])
    with pytest.raises(InsufficientBudget):
        await manager.apreflight("t", [Message("system", "word " * 3000)])
    assert storage.events == [event["event"] for event in recorder.events]


async def test_many_tasks_can_wait_for_one_session():
    """More tasks wait than the loop has threads. They take turns, and a canceled one does not block the others."""

    class Slow:
        async def summarize(self, messages, style, keep_keys):
            started.set()
            await is_released.wait()
            return Message("assistant", "a short summary")

    started, is_released = asyncio.Event(), asyncio.Event()
    manager = small_manager(summarizer=Slow())
    async with asyncio.timeout(30):
        tasks = [asyncio.create_task(manager.apreflight("s", [SYSTEM, *chat_turns(30 + n)])) for n in range(40)]
        await started.wait()
        tasks[-1].cancel()
        is_released.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert len(await manager.apreflight("s", [SYSTEM, *chat_turns(2)])) == 5
    assert [type(result) for result in results].count(asyncio.CancelledError) == 1


def test_an_exporter_can_read_the_session_but_not_compact_it():
    """During a call, reading is allowed. Compacting the same session would wait for itself, so it raises."""
    summaries, errors = [], []

    def on_event(event):
        if event["event"] == "compact.completed":
            summaries.append(manager.remember("s").summary)
            try:
                manager.preflight("s", chat_turns(1))
            except CompactError as error:
                errors.append(str(error))

    manager = small_manager(CallbackExporter(on_event))
    manager.manual_compact("s", [SYSTEM, *chat_turns(30)])
    assert summaries[0].startswith("<COMPACT-SUMMARY v1>")
    assert "already running a call on this thread" in errors[0]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("is_async", [True, False])
def test_an_exporter_can_recall_during_a_recall(is_async):
    passages = []

    def on_event(event):
        if event["event"] == "compact.recall" and event["payload"]["query"] == "question":
            passages.append(manager.recall("s", "answer")[0])

    manager = small_manager(CallbackExporter(on_event))
    manager.preflight("s", chat_turns(30))
    if is_async:
        asyncio.run(manager.arecall("s", "question"))
    else:
        manager.recall("s", "question")
    assert "answer" in passages[0].text


@pytest.mark.req("K-ASY-1")
async def test_an_async_call_counts_and_compacts_outside_the_event_loop():
    """Counting, planning, exporting and summarizing all run on a worker thread."""
    threads = set()

    class Estimator(TiktokenEstimator):
        def count_message(self, message, model=""):
            threads.add(threading.get_ident())
            return super().count_message(message, model)

    class Summarizer(SpySummarizer):
        def summarize(self, messages, style, keep_keys):
            threads.add(threading.get_ident())
            return super().summarize(messages, style, keep_keys)

    exporter = CallbackExporter(lambda event: threads.add(threading.get_ident()))
    manager = small_manager(exporter, token_estimator=Estimator(), summarizer=Summarizer())
    assert len(await manager.apreflight("s", [SYSTEM, *chat_turns(30)])) < 30
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.req("K-ASY-1")
async def test_a_warm_up_can_be_awaited_and_waited_for():
    """A warm-up calls nothing of the configuration's own parts, and raises no event."""
    recorder, summarizer = Recorder(), SpySummarizer()
    manager = small_manager(recorder, summarizer=summarizer, redact=lambda message: pytest.fail("called"))
    await manager.warm_up()
    manager.warm_up().wait(timeout_s=30)
    assert recorder.events == []
    assert summarizer.seen == []


async def test_the_event_loop_can_read_a_session_that_a_worker_compacts():
    """A sync method on the loop's thread waits for a running step, but not for a slow summarizer."""
    is_waiting, may_go_on = threading.Event(), threading.Event()

    class Slow(SpySummarizer):
        def summarize(self, messages, style, keep_keys):
            is_waiting.set()
            assert may_go_on.wait(30)
            return super().summarize(messages, style, keep_keys)

    manager = small_manager(summarizer=Slow())
    task = asyncio.create_task(manager.apreflight("s", [SYSTEM, *chat_turns(30)]))
    await asyncio.to_thread(is_waiting.wait, 30)
    manager.report_usage("s", 100)
    assert manager.remember("s").tokens == 0
    with pytest.raises(CompactError, match="already running a call"):
        manager.preflight("s", [SYSTEM])
    may_go_on.set()
    assert len(await task) < 30


class SlowStore(MemoryCompactionStore):
    """A plan store that waits in the middle of a commit."""

    def __init__(self):
        super().__init__()
        self.is_committing, self.may_go_on = threading.Event(), threading.Event()

    def commit_plan(self, thread_id, plan, expected_version):
        is_committed = super().commit_plan(thread_id, plan, expected_version)
        self.is_committing.set()
        assert self.may_go_on.wait(30)
        return is_committed


@pytest.mark.req("K-ASY-2")
async def test_a_call_that_is_canceled_during_its_commit_leaves_session_and_store_in_agreement():
    """The caller is released at once. The commit is completed, and the session's next call uses its plan."""
    store, summarizer, recorder = SlowStore(), SpySummarizer(), Recorder()
    manager = small_manager(recorder, summarizer=summarizer, plan_store=store)
    messages = [SYSTEM, *chat_turns(30)]
    task = asyncio.create_task(manager.apreflight("s", messages))
    await asyncio.to_thread(store.is_committing.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    store.may_go_on.set()
    prompt = await manager.apreflight("s", [*messages, Message("user", "go on")])
    assert prompt[-1].text == "go on"
    assert len(prompt) < 30
    assert len(summarizer.seen) == 1
    assert store.get_current_plan("s")[1] == manager.plan("s").version == 1
    assert "compact.error" not in [event["event"] for event in recorder.events]


@pytest.mark.req("K-ASY-2")
def test_an_event_loop_that_ends_during_a_commit_leaves_the_old_plan():
    """`asyncio.run` cancels everything. The session is usable afterwards, with its whole history."""

    class Async:
        def __init__(self):
            self.is_committing = asyncio.Event()

        async def get_current_plan(self, thread_id):
            return None, 0

        async def commit_plan(self, thread_id, plan, expected_version):
            self.is_committing.set()
            await asyncio.Event().wait()

    store, messages = Async(), [SYSTEM, *chat_turns(30)]
    manager = small_manager(plan_store=store)

    async def end_early():
        task = asyncio.create_task(manager.apreflight("s", messages))
        await store.is_committing.wait()
        task.cancel()

    asyncio.run(end_early())
    assert manager.plan("s") is None
    assert manager.remember("s").summary is None
