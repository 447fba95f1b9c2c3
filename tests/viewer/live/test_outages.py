"""An outage of Redis or of the database is one line for each process, and one line when it is over."""

from __future__ import annotations

import asyncio
import logging
import uuid
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ingest.outage import Outage
from ingest.storage import notifications
from viewer.live import hub
from viewer.live.hub import Hub

pytestmark = pytest.mark.req("A-FLT-1")
PROJECT = 7


class Redis:
    """A channel layer that fails until `works` is set."""

    def __init__(self) -> None:
        self.works = False
        self.attempts = 0

    def _try(self) -> None:
        self.attempts += 1
        if not self.works:
            raise ConnectionRefusedError(111, "Connection refused")

    async def new_channel(self) -> str:
        return "channel"

    async def group_add(self, group: str, channel: str) -> None:
        self._try()

    async def group_discard(self, group: str, channel: str) -> None:
        self._try()

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self._try()

    async def receive(self, channel: str) -> Any:
        return await asyncio.Event().wait()


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def open_page(monkeypatch: pytest.MonkeyPatch, read: Any) -> Any:
    """Follow a project with a hub that polls quickly."""
    monkeypatch.setattr(hub, "read", read)
    monkeypatch.setattr(hub, "POLL_S", 0.01)
    async with Hub().subscription(PROJECT):
        yield


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().split(" error=")[0].split(" after_s")[0] for record in caplog.records]


def assert_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    """No traceback, and a logger whose warnings are on the status page."""
    assert not any(record.exc_info for record in caplog.records)
    assert all(record.name.startswith("ariadne.") for record in caplog.records)


async def test_redis_is_named_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Commits and pages share the line, which has no traceback and says what to do."""
    redis = Redis()
    monkeypatch.setattr(notifications, "get_channel_layer", lambda: redis)
    monkeypatch.setattr(hub, "get_channel_layer", lambda: redis)

    async def read(function: Any, *args: Any) -> Any:
        return 5 if function is hub.last_seq else None

    async with open_page(monkeypatch, read):
        for _ in range(3):
            assert not await notifications.publish(1, 1, [uuid.uuid4()])
        await until(lambda: redis.attempts > 10)
        (line,) = messages(caplog)
        assert line.startswith("channel_layer_unavailable action='Redis does not answer. Check REDIS_URL")
        assert notifications.channel_layer.problem.startswith("Redis does not answer. Check REDIS_URL.")
        redis.works = True
        assert await notifications.publish(1, 1, [uuid.uuid4()])
        await until(lambda: len(caplog.records) == 2)
    assert messages(caplog)[1] == "channel_layer_works" and notifications.channel_layer.problem == ""
    assert_one_line_each(caplog)


async def test_a_database_that_does_not_answer_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    works, attempts = asyncio.Event(), 0

    async def read(function: Any, *args: Any) -> Any:
        nonlocal attempts
        if function is hub.last_seq:
            return 5
        attempts += 1
        if not works.is_set():
            raise TimeoutError
        return None

    async with open_page(monkeypatch, read):
        await until(lambda: attempts > 5)
        assert len(caplog.records) == 1
        works.set()
        await until(lambda: len(caplog.records) == 2)
    assert [line.split()[0] for line in messages(caplog)] == ["live_changes_unavailable", "live_changes_works"]
    assert_one_line_each(caplog)


def test_an_outage_ends_with_its_last_user(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(logging.getLogger("ariadne.test"), "part", "wait")
    for user in ("a", "b"):
        outage.fail(user, OSError(5, "broken"))
    outage.succeed("a")
    assert len(caplog.records) == 1
    outage.succeed("b")
    outage.succeed("b")
    assert len(caplog.records) == 2
