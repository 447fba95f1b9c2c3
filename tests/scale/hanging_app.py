"""An ASGI application with a job that never ends. With FAILS_TO_START in the environment, its work fails to start."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from django.conf import settings

settings.configure()

from ariadne.runtime.jobs import Jobs, every  # noqa: E402 - Django must be set up first

_has_begun = asyncio.Event()


@asynccontextmanager
async def lifespan() -> AsyncIterator[None]:
    if "FAILS_TO_START" in os.environ:
        raise RuntimeError("cannot start")
    loop = asyncio.get_running_loop()

    def hang() -> None:
        loop.call_soon_threadsafe(_has_begun.set)
        threading.Event().wait()

    async with Jobs(every(3600, "hanging", hang)):
        yield


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await _has_begun.wait()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Length", b"7")]})
    await send({"type": "http.response.body", "body": b"running"})
