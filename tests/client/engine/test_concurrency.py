"""Concurrent callers of one manager: event loops, waiting tasks, and exporters that call back."""

from __future__ import annotations

import asyncio

import pytest
from builders import Recorder, SpySummarizer, chat_turns, small_manager
from compact import CallbackExporter, CompactError, InsufficientBudget, Message

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
            await asyncio.sleep(0.02)
            return Message("assistant", "a short summary")

    manager = small_manager(summarizer=Slow())
    async with asyncio.timeout(30):
        tasks = [asyncio.create_task(manager.apreflight("s", [SYSTEM, *chat_turns(30 + n)])) for n in range(40)]
        await asyncio.sleep(0)
        tasks[-1].cancel()
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
