"""Answer requests that take too long with 503.

Django runs pages on threads, which cannot be interrupted, so the page may still finish later. Its queries end at the
same deadline (see `db_middleware.connection_options`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ingest.http.endpoints import PRIVATE_HEADERS

Message = Mapping[str, Any]
Application = Callable[[Any, Any, Any], Awaitable[None]]

_BODY = b"This page took too long. Try again later.\n"


def with_deadline(application: Application, timeout_s: float) -> Application:
    """Wrap an ASGI application so that each response starts within `timeout_s`. Downloads may take longer."""

    async def serve(scope: Any, receive: Any, send: Callable[[Message], Awaitable[None]]) -> None:
        is_started = False

        async def send_in_time(message: Message) -> None:
            nonlocal is_started
            if not is_started:
                is_started = True
                deadline.reschedule(None)
            await send(message)

        try:
            async with asyncio.timeout(timeout_s) as deadline:
                await application(scope, receive, send_in_time)
        except TimeoutError:
            if is_started:
                raise
            headers = [(b"content-type", b"text/plain"), (b"retry-after", b"5"), *PRIVATE_HEADERS]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": _BODY})

    return serve
