"""Endpoints of the write path, as an ASGI application in front of Django.

Each request is decoded, validated, redacted, written and answered. Django's handler alone would cost more than all of
these steps together. All errors have the same JSON shape.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.conf import settings

from ingest import metrics
from ingest.archive import transcripts
from ingest.archive.transcript_format import BadTranscript
from ingest.decoding.door.pseudonyms import clean_id
from ingest.decoding.otlp import conversion
from ingest.decoding.raw_records import Rejection
from ingest.decoding.records import Decoded
from ingest.errors import (
    Conflict,
    Malformed,
    MethodNotAllowed,
    RequestError,
    Unavailable,
    UnsupportedType,
    describe,
)
from ingest.http import health
from ingest.http.body import ClientDisconnected, Receive, decompress
from ingest.http.decode_jobs import Format
from ingest.http.keys import Grant
from ingest.http.limits import run_in_thread
from ingest.http.request import Request, Scope
from ingest.http.service import Service, get_service
from ingest.storage.database.write_failures import find_cause

logger = logging.getLogger("ariadne.ingest")

Send = Callable[[dict[str, Any]], Awaitable[None]]
Response = tuple[int, bytes, list[tuple[bytes, bytes]]]

# Of every response in front of Django, whose middleware sets the same.
PRIVATE_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_JSON = [(b"content-type", b"application/json")]
_PROTOBUF = [(b"content-type", b"application/x-protobuf")]
_JSON_TYPES = {"", "application/json", "text/json"}
# The default of curl and most HTTP libraries. Accepted if the body looks like JSON.
_FORM_TYPE = "application/x-www-form-urlencoded"
_LINE_TYPES = {f"application/{prefix}{name}" for prefix in ("", "x-") for name in ("ndjson", "jsonl", "jsonlines")}
_GZIP_MAGIC = b"\x1f\x8b"
_LOOKS_LIKE_JSON = re.compile(rb"\s*[{\[]").match
_encode = msgspec.json.Encoder().encode


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Handle a request whose path is in `PATHS`."""
    endpoint = scope["path"].rstrip("/")
    started_at = time.perf_counter()
    metrics.in_flight.inc()
    try:
        status, body, headers = await _respond(endpoint, scope, receive)
    except ClientDisconnected:
        return
    finally:
        metrics.in_flight.dec()
    duration_s = time.perf_counter() - started_at
    metrics.requests.labels(endpoint, status).inc()
    metrics.request_seconds.labels(endpoint).observe(duration_s)
    if logger.isEnabledFor(logging.INFO):
        logger.info("request endpoint=%s status=%d ms=%.1f", endpoint, status, duration_s * 1000)
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*headers, (b"content-length", str(len(body)).encode()), *PRIVATE_HEADERS],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def _respond(endpoint: str, scope: Scope, receive: Receive) -> Response:
    method, handle = PATHS[endpoint]
    request = Request(scope, receive)
    try:
        if scope["method"] != method and not (method == "GET" and scope["method"] == "HEAD"):
            raise MethodNotAllowed(f"Use {method} for {endpoint}.")
        async with asyncio.timeout(settings.REQUEST_TIMEOUT_S):
            return await handle(get_service(), request)
    except TimeoutError:
        late = Unavailable(f"The request took longer than {settings.REQUEST_TIMEOUT_S} s. Try again later.")
        return _error_response(late, request, endpoint)
    except RequestError as error:
        status, body, headers = _error_response(error, request, endpoint)
        if isinstance(error, MethodNotAllowed):
            headers.append((b"allow", b"GET, HEAD" if method == "GET" else method.encode()))
        return status, body, headers
    except ClientDisconnected:
        raise
    except Exception as error:
        # No event may cause a 500. With 503, the client keeps its events and retries.
        logger.error("request_failed endpoint=%s %s", endpoint, describe(error))
        unavailable = Unavailable("The server could not handle this request. Try again later.", retry_after_s=5)
        return _error_response(unavailable, request, endpoint)


def _error_response(error: RequestError, request: Request, endpoint: str) -> Response:
    if endpoint == "/v1/traces":
        is_json = not request.is_protobuf
        headers, body = list(_JSON if is_json else _PROTOBUF), conversion.error_status(error, is_json=is_json)
    else:
        headers, body = list(_JSON), _encode(error.body())
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(error.retry_after_s).encode()))
    if error.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="ariadne ingest"'))
    return error.status, body, headers


async def ingest_events(service: Service, request: Request) -> Response:
    """Handle `POST /ingest`."""
    grant = await service.keys.authenticate(request.header(b"authorization"))
    media_type = request.media_type
    is_lines = media_type in _LINE_TYPES
    if not is_lines and media_type not in {*_JSON_TYPES, _FORM_TYPE}:
        raise _unsupported_type(media_type)
    body = await request.body()
    if media_type == _FORM_TYPE and not _LOOKS_LIKE_JSON(body):
        raise _unsupported_type(media_type)
    decoded = await _store(service, grant, "/ingest", body, "lines" if is_lines else "json")
    if decoded.rejections and not decoded.records:
        rejected = [msgspec.to_builtins(rejection) for rejection in decoded.rejections]
        raise Malformed("All events are invalid. See `rejected` for the reasons.", rejected=rejected)
    result: dict[str, Any] = {"success": True, "count": decoded.count, "rejected": decoded.rejections}
    if decoded.replaced_ids:
        result["replaced_ids"] = decoded.replaced_ids
    return 200, _encode(result), _JSON


def _unsupported_type(media_type: str) -> UnsupportedType:
    return UnsupportedType(f"Content-Type {media_type[:60]!r} is not supported. Use application/json.")


async def ingest_traces(service: Service, request: Request) -> Response:
    """Handle `POST /v1/traces`, which is OTLP/HTTP. The response has the format of the request."""
    grant = await service.keys.authenticate(request.header(b"authorization"))
    is_protobuf = request.is_protobuf
    if not is_protobuf and request.media_type not in _JSON_TYPES:
        raise UnsupportedType("Use Content-Type application/x-protobuf or application/json.")
    body = await request.body()
    decoded = await _store(service, grant, "/v1/traces", body, "otlp_protobuf" if is_protobuf else "otlp_json")
    return 200, conversion.response(decoded.rejections, is_json=not is_protobuf), _PROTOBUF if is_protobuf else _JSON


async def _store(service: Service, grant: Grant, endpoint: str, body: bytes, body_format: Format) -> Decoded:
    """Decode, redact and write the body of a request. Returns after the commit."""
    service.byte_rate.consume(grant.key_id, len(body))
    # Before decoding, which is most of the work.
    service.writer.backlog.require_room(grant.project_id, grant.key_id)
    with service.memory.reserve(len(body), grant.project_id):
        decoded = await service.decode_pool.decode_events(
            grant.project_id, body, body_format, max_events=settings.INGEST_MAX_EVENTS, rules=grant.rules
        )
        if decoded.redacted_count:
            metrics.redacted.inc(decoded.redacted_count)
            metrics.replaced_ids.inc(decoded.replaced_ids)
        service.event_rate.consume(grant.key_id, decoded.count)
        service.project_rate.consume(grant.project_id, decoded.count)
        if decoded.records:
            rejections = await service.writer.write(
                grant.project_id, decoded.records, size=len(body), indexes=decoded.indexes, key_id=grant.key_id
            )
            if rejections:
                decoded = _without_rejected(decoded, rejections)
    metrics.accepted.labels(endpoint).inc(decoded.count)
    metrics.rejected.labels(endpoint).inc(len(decoded.rejections))
    metrics.received_bytes.labels(endpoint).inc(len(body))
    service.keys.mark_used(grant)
    return decoded


def _without_rejected(decoded: Decoded, rejections: list[Rejection]) -> Decoded:
    """Return `decoded` without the records that the database rejected."""
    rejected = {rejection.index for rejection in rejections}
    kept = [pair for pair in zip(decoded.indexes, decoded.records, strict=True) if pair[0] not in rejected]
    return Decoded(
        records=[record for _, record in kept],
        indexes=[index for index, _ in kept],
        rejections=sorted([*decoded.rejections, *rejections], key=lambda rejection: rejection.index),
        replaced_ids=decoded.replaced_ids,
    )


async def ingest_transcript(service: Service, request: Request) -> Response:
    """Handle `POST /ingest/transcripts`: archive one pre-compact transcript. Idempotent."""
    grant = await service.keys.authenticate(request.header(b"authorization"))
    query = request.query()
    sent_session_id = query.get("session") or query.get("session_id")
    step = query.get("step", "")
    if not sent_session_id or not query.get("sha256") or not (step.isascii() and step.isdigit() and len(step) < 10):
        raise Malformed(
            "Required query parameters: session=<id>, step=<number>, sha256=<digest of the uncompressed body>."
        )
    session_id = clean_id(sent_session_id, grant.rules)
    if session_id != sent_session_id:
        metrics.replaced_ids.inc()
    body = await request.body()
    if body.startswith(_GZIP_MAGIC):
        # A compressed file that was sent without Content-Encoding. JSON cannot start with these bytes.
        body = await run_in_thread(decompress, body, "gzip", settings.INGEST_MAX_BODY_BYTES)
    service.byte_rate.consume(grant.key_id, len(body))
    with service.memory.reserve(len(body), grant.project_id):
        parsed = await service.decode_pool.parse_transcript(grant.project_id, body, grant.rules)
        try:
            stored = await transcripts.astore(
                project_id=grant.project_id,
                session_id=session_id,
                step=int(step),
                body=body,
                sha256=query["sha256"],
                created_at=_parse_created_at(query.get("created_at", "")),
                parsed=(parsed.ids, parsed.texts, parsed.counts),
            )
        except BadTranscript as error:
            raise Malformed(
                error.message, rejected=[{"index": 0, "path": error.path, "message": error.message}]
            ) from None
        except transcripts.StepConflict as error:
            raise Conflict(str(error), next_step=error.next_step) from None
        except OSError as error:
            raise Unavailable(find_cause(error).answer) from error
    service.keys.mark_used(grant)
    metrics.received_bytes.labels("/ingest/transcripts").inc(len(body))
    result = {
        "success": True,
        "session": sent_session_id,
        "step": stored.step,
        "sha256": stored.sha256,
        "chain": stored.chain,
        "messages": stored.message_count,
        "redactions": dict(stored.redactions),
    }
    return 200, _encode(result), _JSON


def _parse_created_at(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Malformed("created_at must be an ISO 8601 time.") from None


async def healthz(service: Service, request: Request) -> Response:
    """Handle `GET /healthz`, which shows that the process responds."""
    return 200, b'{"ok":true}', _JSON


async def readyz(service: Service, request: Request) -> Response:
    """Handle `GET /readyz`."""
    status, body = await health.check_readiness(service)
    return status, _encode(body), _JSON


async def metrics_page(service: Service, request: Request) -> Response:
    """Handle `GET /metrics`."""
    body, content_type = health.render_metrics(service)
    return 200, body, [(b"content-type", content_type.encode())]


PATHS: dict[str, tuple[str, Callable[[Service, Request], Awaitable[Response]]]] = {
    "/ingest": ("POST", ingest_events),
    "/ingest/transcripts": ("POST", ingest_transcript),
    "/v1/traces": ("POST", ingest_traces),
    "/healthz": ("GET", healthz),
    "/readyz": ("GET", readyz),
    "/metrics": ("GET", metrics_page),
}
