"""The addresses of the write path, as one plain ASGI application in front of Django.

Each is decode, validate, redact, write, answer. Django's handler costs more than all of these together, so none of it
is here; and every refusal has one shape, so that a client needs one piece of code for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from django.conf import settings

from ingest import health, metrics
from ingest.body import Disconnected, Receive, read
from ingest.decode import Decoded, decode
from ingest.errors import Malformed, Refusal, WrongMethod, WrongType
from ingest.keys import Grant
from ingest.redact import redact
from ingest.service import Service, service

logger = logging.getLogger("ariadne.ingest")

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Answer = tuple[int, bytes, list[tuple[bytes, bytes]]]
_JSON = [(b"content-type", b"application/json")]
_JSON_TYPES = {"", "application/json", "text/json", "text/plain", "application/x-www-form-urlencoded"}
_LINE_TYPES = {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/jsonlines"}
_encode = msgspec.json.Encoder().encode


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request whose path is one of `PATHS`."""
    endpoint = scope["path"].rstrip("/") or "/"
    began = time.perf_counter()
    try:
        status, body, headers = await _answered(endpoint, scope, receive)
    except Disconnected:
        return
    metrics.requests.labels(endpoint, status).inc()
    metrics.request_seconds.labels(endpoint).observe(time.perf_counter() - began)
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*headers, (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def _answered(endpoint: str, scope: Scope, receive: Receive) -> Answer:
    try:
        method, handle = PATHS[endpoint]
        if scope["method"] != method and not (method == "GET" and scope["method"] == "HEAD"):
            raise WrongMethod(f"use {method} here")
        return await handle(service(), Request(scope, receive))
    except Refusal as refusal:
        return _refused(refusal)
    except Disconnected:
        raise
    except Exception:
        # The edge: nothing an event holds may end as a 500. The sender keeps it and tries again.
        logger.exception("request failed at %s", endpoint)
        return _refused(Refusal503("the request could not be handled; it may be sent again", retry_after_s=5))


class Refusal503(Refusal):
    status, code = 503, "unavailable"


def _refused(refusal: Refusal) -> Answer:
    headers = list(_JSON)
    if refusal.retry_after_s is not None:
        headers.append((b"retry-after", str(refusal.retry_after_s).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="ariadne ingest"'))
    return refusal.status, _encode(refusal.body()), headers


class Request:
    """The few things the write path asks of a request."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self.scope = scope

    def header(self, name: bytes) -> str:
        return self._headers.get(name, b"").decode("latin-1")

    @property
    def media_type(self) -> str:
        return self.header(b"content-type").partition(";")[0].strip().lower()

    async def body(self) -> bytes:
        return await read(
            self._receive,
            declared=self.header(b"content-length"),
            encoding=self.header(b"content-encoding"),
            max_bytes=settings.INGEST_MAX_BODY_BYTES,
        )


async def ingest(parts: Service, request: Request) -> Answer:
    grant = await parts.keys.check(request.header(b"authorization"))
    if request.media_type not in _JSON_TYPES | _LINE_TYPES:
        raise WrongType(f"Content-Type {request.media_type[:60]!r} is not known: use application/json")
    body = await request.body()
    decoded = decode(body, max_events=settings.INGEST_MAX_EVENTS, is_lines=request.media_type in _LINE_TYPES)
    await _store(parts, grant, decoded, len(body), "/ingest")
    if decoded.rejections and not decoded.records:
        raise Malformed("not one event could be stored", rejected=[msgspec.to_builtins(r) for r in decoded.rejections])
    return 200, _encode({"success": True, "count": len(decoded.records), "rejected": decoded.rejections}), _JSON


async def _store(parts: Service, grant: Grant, decoded: Decoded, size: int, endpoint: str) -> None:
    if decoded.records:
        metrics.redacted.inc(redact(decoded.records))
        refused = await parts.writer.write(grant.project_id, decoded.records, size=size, indexes=decoded.indexes)
        if refused:
            gone = {rejection.index for rejection in refused}
            kept = [pair for pair in zip(decoded.indexes, decoded.records, strict=True) if pair[0] not in gone]
            decoded.indexes = [index for index, _ in kept]
            decoded.records = [record for _, record in kept]
            decoded.rejections = sorted([*decoded.rejections, *refused], key=lambda rejection: rejection.index)
    metrics.accepted.labels(endpoint).inc(len(decoded.records))
    metrics.rejected.labels(endpoint).inc(len(decoded.rejections))
    metrics.received_bytes.labels(endpoint).inc(size)


async def healthz(parts: Service, request: Request) -> Answer:
    return 200, b'{"ok":true}', _JSON


async def readyz(parts: Service, request: Request) -> Answer:
    status, body = await health.ready(parts)
    return status, _encode(body), _JSON


async def metrics_page(parts: Service, request: Request) -> Answer:
    body, media_type = health.metrics_page(parts)
    return 200, body, [(b"content-type", media_type.encode())]


PATHS: dict[str, tuple[str, Callable[[Service, Request], Awaitable[Answer]]]] = {
    "/ingest": ("POST", ingest),
    "/healthz": ("GET", healthz),
    "/readyz": ("GET", readyz),
    "/metrics": ("GET", metrics_page),
}
