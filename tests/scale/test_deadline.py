"""Requests without a response are answered with 503 at the deadline."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ariadne.runtime.request_deadline import with_deadline


async def run(application: Any, timeout_s: float) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await with_deadline(application, timeout_s)({"type": "http"}, None, send)
    return sent


async def test_a_page_that_takes_too_long_is_503() -> None:
    async def never(_scope: Any, _receive: Any, _send: Any) -> None:
        await asyncio.Event().wait()

    start, body = await run(never, 0.05)
    assert start["status"] == 503
    assert (b"retry-after", b"5") in start["headers"]
    assert body["body"].startswith(b"This page took too long")


async def test_a_download_may_take_longer_than_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the start of the response has a deadline. The test moves the clock of the event loop."""
    loop = asyncio.get_running_loop()
    clock = loop.time

    async def pass_an_hour() -> None:
        monkeypatch.setattr(loop, "time", lambda: clock() + 3600)
        for _ in range(5):
            await asyncio.sleep(0)

    async def download(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await pass_an_hour()
        await send({"type": "http.response.body", "body": b"all of it"})

    async def late(_scope: Any, _receive: Any, send: Any) -> None:
        await pass_an_hour()
        await send({"type": "http.response.start", "status": 200})

    assert [message.get("status") or message["body"] for message in await run(download, 60)] == [200, b"all of it"]
    monkeypatch.undo()
    assert (await run(late, 60))[0]["status"] == 503
