"""`POST /mcp`: the Model Context Protocol over streamable HTTP, with an API token.

Requests are independent of each other, so any web process can answer any request. There is no stream from the server
to the client, so GET is not allowed. A page of another origin is rejected, as the protocol demands, so that a name that
is rebound to this server (DNS rebinding) gets no answer.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from channels.db import database_sync_to_async

from ingest.http.endpoints import PRIVATE_HEADERS
from viewer.accounts.access import Right
from viewer.accounts.authentication import is_own_host, is_own_origin
from viewer.mcp.reader import authenticate, current_reader

PATH = "/mcp"
MAX_BODY_BYTES = 256 * 1024
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


async def application(scope: dict[str, Any], receive: Any, send: Send) -> None:
    """Answer one request of an MCP client."""
    send = _with_headers(send)
    raw_headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    if not is_own_host(raw_headers.get(b"host", "")):
        return await _reject(send, 400, "Unknown host name. Add it to ARIADNE_HOSTS.")
    if b"origin" in raw_headers and not is_own_origin(raw_headers):
        return await _reject(send, 403, "Requests from pages of other origins are not allowed.")
    if scope["method"] != "POST":
        return await _reject(send, 405, "Use POST for /mcp.", (b"allow", b"POST"))
    headers = {name.decode("latin-1").lower(): value for name, value in raw_headers.items()}
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


def _with_headers(send: Send) -> Send:
    """Wrap `send` so that no response is kept or interpreted as another type."""

    async def send_with_headers(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = [header for header in message.get("headers", ()) if header[0].lower() != b"cache-control"]
            message = {**message, "headers": [*own, *PRIVATE_HEADERS]}
        await send(message)

    return send_with_headers


async def _reject(send: Send, status: int, message: str, *headers: tuple[bytes, bytes]) -> None:
    body = json.dumps({"error": message}).encode()
    all_headers = [(b"content-type", b"application/json"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})
