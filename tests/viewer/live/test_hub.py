"""Sockets that open at the same time share one reader, and none of them misses a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from viewer.live import hub
from viewer.live.hub import Change, Hub, Subscription
from viewer.sessions.queries import last_seq

PROJECT = 7
TIMEOUT_S = 30


class Database:
    """Answers the hub's queries when the test says so."""

    def __init__(self) -> None:
        self.newest: list[asyncio.Future[int]] = []
        self.changes: list[asyncio.Future[Change | None]] = []
        self.after: list[int] = []

    async def read(self, function: Callable[..., Any], *args: Any) -> Any:
        answers: list[asyncio.Future[Any]] = self.newest if function is last_seq else self.changes
        if function is not last_seq:
            self.after.append(args[1])
        answers.append(asyncio.get_running_loop().create_future())
        return await answers[-1]

    async def wait_for(self, queries: list[asyncio.Future[Any]], count: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(queries) < count:
                await asyncio.sleep(0.01)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    database = Database()
    monkeypatch.setattr(hub, "read", database.read)
    return database


async def test_sockets_that_open_at_once_start_at_the_earlier_seq(database: Database) -> None:
    """A commit between their queries gives the second a later seq. The first still waits for that commit."""
    changes = Hub()
    async with AsyncExitStack() as stack:
        opening = [asyncio.create_task(stack.enter_async_context(changes.subscription(PROJECT))) for _ in range(2)]
        await database.wait_for(database.newest, 2)
        for answer, seq, task in zip(database.newest, (5, 9), opening, strict=True):
            answer.set_result(seq)
            await task
        await database.wait_for(database.changes, 1)
        assert database.after == [5]


async def test_a_tail_that_opens_during_a_query_catches_up(database: Database) -> None:
    """The query was made for a page that shows no spans."""
    changes = Hub()
    async with AsyncExitStack() as stack:
        opening = asyncio.create_task(stack.enter_async_context(changes.subscription(PROJECT, spans=False)))
        await database.wait_for(database.newest, 1)
        database.newest[0].set_result(5)
        page: Subscription = await opening
        await database.wait_for(database.changes, 1)
        tail = await stack.enter_async_context(changes.subscription(PROJECT))
        database.changes[0].set_result(Change(5, 6, {}, []))
        async with asyncio.timeout(TIMEOUT_S):
            await page.get()
            await tail.get()
        assert (page.is_behind, tail.is_behind, tail.newest_seq) == (False, True, 6)
