"""The addresses of the write path, as one plain ASGI application in front of Django.

Each is decode, validate, redact, write, answer. Django's handler costs more than all of these together, so none of it
is here; and every refusal has one shape, so that a client needs one piece of code for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

import msgspec
from django.conf import settings

from ingest.archive import transcripts
from ingest.decoding.json_body import Decoded, decode
from ingest.decoding.otlp import mapping
from ingest.decoding.records import Span
from ingest.decoding.redaction import redact
from ingest.decoding.redaction import value as redact_value
from ingest.http import health, metrics
from ingest.http.body import Disconnected, Receive, inflate, read
from ingest.http.errors import Conflict, Malformed, Refusal, Unavailable, WrongMethod, WrongType, describe
from ingest.http.keys import Grant
from ingest.http.limits import aside
from ingest.service import Service, service
from ingest.storage.messages import extract

logger = logging.getLogger("ariadne.ingest")

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Answer = tuple[int, bytes, list[tuple[bytes, bytes]]]
_JSON = [(b"content-type", b"application/json")]
_PROTOBUF = [(b"content-type", b"application/x-protobuf")]
_JSON_TYPES = {"", "application/json", "text/json"}
# What curl and most HTTP libraries claim of a body when nobody said what it is; taken where it begins like JSON.
_UNSAID_TYPE = "application/x-www-form-urlencoded"
_LINE_TYPES = {f"application/{prefix}{name}" for prefix in ("", "x-") for name in ("ndjson", "jsonl", "jsonlines")}
_GZIP = b"\x1f\x8b"
# From here on decoding would hold up every other request of the process; a thread shares the processor fairly.
_LARGE_BYTES = 512 * 1024
_encode = msgspec.json.Encoder().encode


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request whose path is one of `PATHS`."""
    endpoint = scope["path"].rstrip("/")
    began = time.perf_counter()
    metrics.in_flight.inc()
    try:
        status, body, headers = await _answered(endpoint, scope, receive)
    except Disconnected:
        return
    finally:
        metrics.in_flight.dec()
    took_s = time.perf_counter() - began
    metrics.requests.labels(endpoint, status).inc()
    metrics.request_seconds.labels(endpoint).observe(took_s)
    if logger.isEnabledFor(logging.INFO):
        logger.info("request endpoint=%s status=%d ms=%.1f", endpoint, status, took_s * 1000)
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*headers, (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def _answered(endpoint: str, scope: Scope, receive: Receive) -> Answer:
    method, handle = PATHS[endpoint]
    request = Request(scope, receive)
    try:
        if scope["method"] != method and not (method == "GET" and scope["method"] == "HEAD"):
            raise WrongMethod(f"use {method} here")
        return await handle(service(), request)
    except Refusal as refusal:
        status, body, headers = _refused(refusal, request, endpoint)
        if isinstance(refusal, WrongMethod):
            headers.append((b"allow", b"GET, HEAD" if method == "GET" else method.encode()))
        return status, body, headers
    except Disconnected:
        raise
    except Exception as error:
        # The edge: nothing that an event holds may end as a 500. The sender keeps it and tries again.
        logger.error("request_failed endpoint=%s %s", endpoint, describe(error))
        return _refused(Unavailable("this request could not be handled", retry_after_s=5), request, endpoint)


def _refused(refusal: Refusal, request: Request, endpoint: str) -> Answer:
    if endpoint == "/v1/traces":
        is_json = not request.is_protobuf
        headers, body = list(_JSON if is_json else _PROTOBUF), mapping.status(refusal, is_json=is_json)
    else:
        headers, body = list(_JSON), _encode(refusal.body())
    if refusal.retry_after_s is not None:
        headers.append((b"retry-after", str(refusal.retry_after_s).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="ariadne ingest"'))
    return refusal.status, body, headers


class Request:
    """The few things the write path asks of a request."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self._query: bytes = scope.get("query_string", b"")

    def header(self, name: bytes) -> str:
        return self._headers.get(name, b"").decode("latin-1")

    @property
    def media_type(self) -> str:
        return self.header(b"content-type").partition(";")[0].strip().lower()

    @property
    def is_protobuf(self) -> bool:
        return self.media_type in {"application/x-protobuf", "application/protobuf", "application/octet-stream"}

    def query(self) -> dict[str, str]:
        found = parse_qs(self._query.decode("latin-1"), keep_blank_values=True)
        return {key: values[-1] for key, values in found.items()}

    async def body(self) -> bytes:
        return await read(
            self._receive,
            declared=self.header(b"content-length"),
            encoding=self.header(b"content-encoding"),
            max_bytes=settings.INGEST_MAX_BODY_BYTES,
            timeout_s=settings.INGEST_READ_TIMEOUT_S,
        )


async def ingest(parts: Service, request: Request) -> Answer:
    """Events as JSON, in any of their forms."""
    grant = await parts.keys.authenticate(request.header(b"authorization"))
    is_lines = request.media_type in _LINE_TYPES
    if not is_lines and request.media_type not in {*_JSON_TYPES, _UNSAID_TYPE}:
        raise _unknown_type(request)

    def convert(body: bytes, top: int) -> Decoded:
        if request.media_type == _UNSAID_TYPE and body.lstrip()[:1] not in {b"{", b"["}:
            raise _unknown_type(request)
        return decode(body, max_events=top, is_lines=is_lines)

    decoded = await _taken(parts, request, grant, "/ingest", convert)
    if decoded.rejections and not decoded.records:
        raise Malformed("not one event could be stored", rejected=[msgspec.to_builtins(r) for r in decoded.rejections])
    return 200, _encode({"success": True, "count": decoded.count, "rejected": decoded.rejections}), _JSON


def _unknown_type(request: Request) -> WrongType:
    return WrongType(f"Content-Type {request.media_type[:60]!r} is not known: use application/json")


async def traces(parts: Service, request: Request) -> Answer:
    """OTLP/HTTP, answered in the form that was asked."""
    grant = await parts.keys.authenticate(request.header(b"authorization"))
    if not request.is_protobuf and request.media_type not in _JSON_TYPES:
        raise WrongType("use application/x-protobuf or application/json")
    convert = mapping.from_protobuf if request.is_protobuf else mapping.from_json
    decoded = await _taken(parts, request, grant, "/v1/traces", lambda body, top: convert(body, max_events=top))
    answer = mapping.response(decoded.rejections, is_json=not request.is_protobuf)
    return 200, answer, _PROTOBUF if request.is_protobuf else _JSON


async def _taken(
    parts: Service, request: Request, grant: Grant, endpoint: str, convert: Callable[[bytes, int], Decoded]
) -> Decoded:
    """Read, decode, redact, write; what could be stored is, once this returns."""
    body = await request.body()
    parts.byte_rate.take(grant.key_id, len(body))
    with parts.room.hold(len(body)):
        if len(body) > _LARGE_BYTES:
            decoded = await aside(_prepared, body, convert)
        else:
            # One at a time, and the loop goes round in between: bodies that come together would otherwise be decoded
            # in one go, while Postgres waits for the writer and people wait for their pages.
            async with parts.turn:
                decoded = _prepared(body, convert)
                await asyncio.sleep(0)
        parts.event_rate.take(grant.key_id, decoded.count)
        if decoded.records:
            refused = await parts.writer.write(
                grant.project_id, decoded.records, size=len(body), indexes=decoded.indexes
            )
            if refused:
                decoded = _without(decoded, refused)
    metrics.accepted.labels(endpoint).inc(decoded.count)
    metrics.rejected.labels(endpoint).inc(len(decoded.rejections))
    metrics.received_bytes.labels(endpoint).inc(len(body))
    parts.keys.mark_used(grant)
    return decoded


def _prepared(body: bytes, convert: Callable[[bytes, int], Decoded]) -> Decoded:
    decoded = convert(body, settings.INGEST_MAX_EVENTS)
    if hidden := redact(decoded.records):
        metrics.redacted.inc(hidden)
    for record in decoded.records:
        if type(record) is Span:
            if record.payload is not None:
                # Named after redaction: the name must be that of what is stored.
                extract(record)
                record.said = None
            record.fields = None
    return decoded


def _without(decoded: Decoded, refused: list[Any]) -> Decoded:
    gone = {rejection.index for rejection in refused}
    kept = [pair for pair in zip(decoded.indexes, decoded.records, strict=True) if pair[0] not in gone]
    return Decoded(
        records=[record for _, record in kept],
        indexes=[index for index, _ in kept],
        rejections=sorted([*decoded.rejections, *refused], key=lambda rejection: rejection.index),
    )


async def transcript(parts: Service, request: Request) -> Answer:
    """One pre-compact transcript, as lines of JSON; sent again it changes nothing."""
    grant = await parts.keys.authenticate(request.header(b"authorization"))
    query = request.query()
    session_id = query.get("session") or query.get("session_id")
    step = query.get("step", "")
    if not session_id or not query.get("sha256") or not (step.isascii() and step.isdigit() and len(step) < 10):
        raise Malformed("expected ?session=<id>&step=<number>&sha256=<of the body, inflated>")
    body = await request.body()
    if body.startswith(_GZIP):
        # A file that was packed beforehand and sent as it is; no line of JSON begins so.
        body = await aside(inflate, body, "gzip", settings.INGEST_MAX_BODY_BYTES)
    parts.byte_rate.take(grant.key_id, len(body))
    with parts.room.hold(len(body)):
        try:
            stored = await transcripts.astore(
                project_id=grant.project_id,
                session_id=session_id,
                step=int(step),
                body=body,
                sha256=query["sha256"],
                created_at=_created_at(query.get("created_at", "")),
                redact=redact_value,
            )
        except transcripts.BadTranscript as error:
            raise Malformed(
                error.message, rejected=[{"index": 0, "path": error.path, "message": error.message}]
            ) from None
        except transcripts.Conflict as error:
            raise Conflict(str(error)) from None
        except OSError as error:
            raise Unavailable("the database is away") from error
    parts.keys.mark_used(grant)
    metrics.received_bytes.labels("/ingest/transcripts").inc(len(body))
    found = {
        "success": True,
        "session": session_id,
        "step": stored.step,
        "sha256": stored.sha256,
        "chain": stored.chain,
        "messages": stored.message_count,
        "redactions": dict(stored.redactions),
    }
    return 200, _encode(found), _JSON


def _created_at(text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Malformed("created_at: expected an ISO 8601 time") from None


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
    "/ingest/transcripts": ("POST", transcript),
    "/v1/traces": ("POST", traces),
    "/healthz": ("GET", healthz),
    "/readyz": ("GET", readyz),
    "/metrics": ("GET", metrics_page),
}
