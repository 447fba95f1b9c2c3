"""Reject requests that are too large or too slow while they arrive.

Daphne passes a request to the application after all of it arrived, so the application cannot reject one that never
ends. The guard works inside Twisted. It checks the declared length, the bytes received and the time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from io import BytesIO
from typing import Any

from django.conf import settings

from ariadne.runtime import descriptors, half_close
from ingest import metrics

# Slower senders only keep a connection open.
MIN_BYTES_PER_S = 64 * 1024
_CHECK_INTERVAL_S = 0.5
# They need no descriptor, and a process that is only busy must not be taken for a dead one.
_ALWAYS_ANSWERED = {"/healthz", "/metrics"}
# The rest of a body that is too large is read and dropped for this long, up to this size.
_DISCARD_S, _MAX_DISCARDED_BYTES = 30.0, 1024 * 1024 * 1024
# Twisted writes bodies of 100 kB or more to a temporary file, and batches of spans are often larger. All bodies that
# are still arriving share the second limit.
_MAX_BYTES_IN_MEMORY, _MAX_TOTAL_BYTES_IN_MEMORY = 1024 * 1024, 64 * 1024 * 1024


def install(endpoints: Collection[str]) -> None:
    """Guard all requests of this process if daphne serves it.

    Rejected requests never reach the code that counts requests, so the guard counts them: by path if the path is one of
    `endpoints`, otherwise as "other".
    """
    protocol: Any = sys.modules.get("daphne.http_protocol")
    if protocol is None or getattr(protocol.WebRequest, "is_guarded", False):
        return
    from twisted.internet import reactor  # noqa: PLC0415 - importing it earlier would choose another reactor

    protocol.WebRequest = _guarded_request_class(protocol.WebRequest, reactor, endpoints)
    _limit_idle_time(protocol.http.HTTPChannel)
    half_close.install(protocol.http._GenericHTTPChannelProtocol, endpoints)
    # Twisted formats an access log line for each request, although the log is not used.
    protocol.HTTPFactory.log = lambda factory, request: None


def _limit_idle_time(channel: Any) -> None:
    """Close connections that do not send a complete request line within Twisted's idle timeout."""
    reset = channel.resetTimeout

    def reset_timeout(self: Any) -> None:
        # By default each byte resets the timeout, so a client could keep a connection open with half a line.
        if self.requests:
            reset(self)

    channel.resetTimeout = reset_timeout


def _guarded_request_class(base: Any, reactor: Any, endpoints: Collection[str]) -> type[Any]:
    """Return a subclass of Twisted's request class that enforces the limits."""
    arriving: dict[int, Any] = {}

    def check_deadlines() -> None:
        now = time.monotonic()
        for request in [request for request in arriving.values() if request.deadline < now]:
            request.end()
        if arriving:
            reactor.callLater(_CHECK_INTERVAL_S, check_deadlines)

    class GuardedRequest(base):  # type: ignore[misc]
        is_guarded = True

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            # Twisted would parse forms of any size on the event loop, although the result is not used.
            self._parsePOSTFormSubmission = False
            self.deadline = time.monotonic() + settings.INGEST_READ_TIMEOUT_S
            self.bytes_in_memory = 0
            self._received_bytes = 0
            self._is_rejected = False
            if not arriving:
                reactor.callLater(_CHECK_INTERVAL_S, check_deadlines)
            arriving[id(self)] = self

        def gotLength(self, length: int | None) -> None:  # noqa: N802 - Twisted's name
            if self._is_one_too_many():
                super().gotLength(0)
                self.requestHeaders.removeHeader(b"Expect")
                message = "The server has too many connections. Try again later."
                self._reject(503, "Service Unavailable", "unavailable", message)
                self._discard_rest()
                return
            if length is not None and length > settings.INGEST_MAX_BODY_BYTES:
                super().gotLength(0)
                waits = self.requestHeaders.hasHeader(b"Expect")
                # Otherwise Twisted would answer "100 Continue" and ask for the body.
                self.requestHeaders.removeHeader(b"Expect")
                self._reject_as_too_large()
                if waits or length > _MAX_DISCARDED_BYTES:
                    self.end()
                return
            self.deadline += (length or 0) / MIN_BYTES_PER_S
            if length is not None and self._fits_in_memory(length):
                self.bytes_in_memory = length
                self.content = BytesIO()
            else:
                super().gotLength(length)

        def _fits_in_memory(self, length: int) -> bool:
            total: int = length + sum(other.bytes_in_memory for other in arriving.values())
            return length <= _MAX_BYTES_IN_MEMORY and total <= _MAX_TOTAL_BYTES_IN_MEMORY

        def handleContentChunk(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
            self._received_bytes += len(data)
            if self._is_rejected:
                if self._received_bytes > _MAX_DISCARDED_BYTES:
                    self.end()
            elif self._received_bytes > settings.INGEST_MAX_BODY_BYTES:
                self._reject_as_too_large()
            else:
                super().handleContentChunk(data)

        def process(self) -> Any:
            if self._is_rejected:
                self.end()
                return None
            arriving.pop(id(self), None)
            return super().process()

        def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
            arriving.pop(id(self), None)
            super().connectionLost(reason)

        def _reject_as_too_large(self) -> None:
            limit = settings.INGEST_MAX_BODY_BYTES
            self._reject(413, "Content Too Large", "too_large", f"The body is too large. The limit is {limit:,} bytes.")
            self._discard_rest()

        def _is_one_too_many(self) -> bool:
            number = self.channel.transport.fileno() if self._endpoint() not in _ALWAYS_ANSWERED else -1
            return descriptors.are_short(number)

        def _discard_rest(self) -> None:
            """Read on. Many clients read no answer before they have sent everything, and lose it if that fails."""
            self.deadline = time.monotonic() + _DISCARD_S
            self.content = BytesIO()

        def end(self) -> None:
            """Close the connection, with an error if none was sent."""
            arriving.pop(id(self), None)
            if not self._is_rejected:
                self._reject(408, "Request Timeout", "too_slow", "The request did not arrive in time.")
            if self.channel is not None:
                self.channel.loseConnection()

        def _reject(self, status: int, reason: str, code: str, message: str) -> None:
            """Send an error in the JSON shape of the ingest endpoints."""
            self._is_rejected = True
            metrics.requests.labels(self._endpoint(), status).inc()
            body = f'{{"success":false,"code":"{code}","error":"{message}"}}'
            head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            head += "Retry-After: 1\r\n" if status == 503 else ""
            head += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            self.channel.transport.write(f"{head}Connection: close\r\n\r\n{body}".encode())

        def _endpoint(self) -> str:
            # Twisted sets a request's own path only after all of it arrived.
            raw_path: bytes = getattr(self.channel, "_path", b"")
            path = raw_path.partition(b"?")[0].decode("latin-1").rstrip("/")
            return path if path in endpoints else "other"

    return GuardedRequest
