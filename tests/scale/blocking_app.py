"""An ASGI application: `/wait` responds after a request for `/go`, and `/block` blocks the event loop."""

from __future__ import annotations

import asyncio
import time
from typing import Any

_go: list[asyncio.Event] = []
_waiting: list[str] = []


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    body = await _answer(scope["path"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def _answer(path: str) -> bytes:
    if not _go:
        _go.append(asyncio.Event())
    if path == "/wait":
        _waiting.append(path)
        await _go[0].wait()
        return b"waited"
    if path == "/block":
        block_the_event_loop()
    if path == "/go":
        _go[0].set()
    return b"%d" % len(_waiting)


def block_the_event_loop() -> None:
    time.sleep(600)
