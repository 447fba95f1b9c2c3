"""Many callers of one manager: event loops, tasks that wait for each other, exporters that ask back."""

from __future__ import annotations

import asyncio

import pytest
from builders import Recorder, SpySummarizer, chat_turns, small_manager
from compact import CallbackExporter, CompactError, InsufficientBudget, Message

SYSTEM = Message("system", "You are careful.")


async def test_async_callers_get_the_same():
    """apreflight and amanual_compact give the same bytes, and await an async summariser."""

    class Async(SpySummarizer):
        async def summarize(self, messages, style, keep_keys):
            return super().summarize(messages, style, keep_keys)

    messages = [SYSTEM, *chat_turns(30)]
    assert await small_manager().apreflight("s", messages) == small_manager().preflight("s", messages)
    out = await small_manager(summarizer=Async("awaited")).amanual_compact("s", messages)
    assert "awaited" in out[1].text
    # Inside a loop the sync form cannot await: the summary is given up, never the run.
    assert len(small_manager(summarizer=Async("awaited")).preflight("s", messages)) == 13


def test_an_async_summariser_works_in_a_sync_program():
    """Outside an event loop the sync form runs a coroutine to its end."""

    class Async(SpySummarizer):
        async def summarize(self, messages, style, keep_keys):
            return super().summarize(messages, style, keep_keys)

    assert "awaited" in small_manager(summarizer=Async("awaited")).preflight("s", [SYSTEM, *chat_turns(30)])[1].text


async def test_an_async_storage_is_awaited_for_events_too():
    """Also for those of a compaction that failed."""

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


async def test_many_tasks_may_wait_for_one_session():
    """More than the event loop has threads: they take turns, and one that gives up keeps nobody out."""

    class Slow:
        async def summarize(self, messages, style, keep_keys):
            await asyncio.sleep(0.02)
            return Message("assistant", "a short summary")

    manager = small_manager(summarizer=Slow())
    async with asyncio.timeout(30):
        tasks = [asyncio.create_task(manager.apreflight("s", [SYSTEM, *chat_turns(30 + n)])) for n in range(40)]
        await asyncio.sleep(0)
        tasks[-1].cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert len(await manager.apreflight("s", [SYSTEM, *chat_turns(2)])) == 5
    assert [type(each) for each in ended].count(asyncio.CancelledError) == 1


def test_an_exporter_may_ask_what_is_remembered_and_not_compact():
    """Looking is free in the middle of a call; compacting the same session there would wait for itself."""
    seen = []

    def on_event(event):
        if event["event"] == "compact.completed":
            seen.append(manager.remember("s").summary)
            with pytest.raises(CompactError, match="in the middle of a call"):
                manager.preflight("s", chat_turns(1))

    manager = small_manager(CallbackExporter(on_event))
    manager.manual_compact("s", [SYSTEM, *chat_turns(30)])
    assert seen and seen[0].startswith("<COMPACT-SUMMARY v1>")
