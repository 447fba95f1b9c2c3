"""`POST /mcp`: the Model Context Protocol over streamable HTTP, with an API token.

Requests are independent of each other, so any web process can answer any request. There is no stream from the server
to the client, so GET is not allowed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from channels.db import database_sync_to_async

from viewer.accounts.access import Right
from viewer.mcp.reader import authenticate, current_reader

PATH = "/mcp"
MAX_BODY_BYTES = 256 * 1024
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


async def application(scope: dict[str, Any], receive: Any, send: Send) -> None:
    """Answer one request of an MCP client."""
    if scope["method"] != "POST":
        return await _reject(send, 405, "Use POST for /mcp.", (b"allow", b"POST"))
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    client = scope.get("client") or ("",)
    meta = {"REMOTE_ADDR": client[0], "HTTP_X_FORWARDED_FOR": headers.get("x-forwarded-for", "")}
    reader = await database_sync_to_async(authenticate)(headers, meta)
    if reader is None:
        message = "Invalid API token. Send one as `Authorization: Bearer arip_…`."
        return await _reject(send, 401, message, (b"www-authenticate", b"Bearer"))
    if not reader.grant.projects(Right.SESSIONS):
        return await _reject(send, 403, "You don't have permission to view sessions.")
    # Most servers never get such a request, so the SDK is imported with the first one.
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415

    from viewer.mcp.tools import build_server  # noqa: PLC0415

    manager = StreamableHTTPSessionManager(
        build_server()._lowlevel_server, json_response=True, stateless=True, max_request_body_size=MAX_BODY_BYTES
    )
    token = current_reader.set(reader)
    try:
        async with manager.run():
            await manager.handle_request(scope, receive, send)
    finally:
        current_reader.reset(token)


async def _reject(send: Send, status: int, message: str, *headers: tuple[bytes, bytes]) -> None:
    body = json.dumps({"error": message}).encode()
    all_headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})
