"""Cut off requests that are too large or too slow while they arrive.

Daphne hands a request over when all of it is there, so an application cannot refuse one that never ends. This refuses
it a step earlier: by its declared length, by what has arrived, and by the time it takes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from typing import Any

from django.conf import settings

from ingest import metrics

# A sender slower than this for the length of its body is not sending, it is holding a connection.
MIN_BYTES_PER_S = 64 * 1024
_LOOK_EVERY_S = 0.5


def install(endpoints: Collection[str]) -> None:
    """Guard the requests of the daphne that runs this process; under another server, nothing.

    What is cut is counted under its address, if that is one of `endpoints`: it never gets to where others are counted.
    """
    protocol: Any = sys.modules.get("daphne.http_protocol")
    if protocol is None or getattr(protocol.WebRequest, "is_guarded", False):
        return
    from twisted.internet import reactor  # noqa: PLC0415 - daphne has chosen the reactor; importing it earlier would

    protocol.WebRequest = _guarded(protocol.WebRequest, reactor, endpoints)
    _guard_idle(protocol.http.HTTPChannel)
    # Twisted makes a line of every request, for a log that nobody keeps.
    protocol.HTTPFactory.log = lambda factory, request: None


def _guard_idle(channel: Any) -> None:
    """Let no connection outlive Twisted's idle time before it has sent the first line of a request."""
    reset = channel.resetTimeout

    def reset_timeout(self: Any) -> None:
        # Every byte would count as life; half a line, byte by byte, is none.
        if self.requests:
            reset(self)

    channel.resetTimeout = reset_timeout


def _guarded(base: Any, reactor: Any, endpoints: Collection[str]) -> type[Any]:
    arriving: dict[int, Any] = {}

    def look() -> None:
        now = time.monotonic()
        for request in [request for request in arriving.values() if request.due_at < now]:
            request.cut(408, "Request Timeout", "too_slow", "the request did not arrive in time")
        if arriving:
            reactor.callLater(_LOOK_EVERY_S, look)

    class GuardedRequest(base):  # type: ignore[misc]
        is_guarded = True

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            # Twisted would take forms apart, on the loop and whatever their size, for a result that nobody reads.
            self._parsePOSTFormSubmission = False
            self.due_at = time.monotonic() + settings.INGEST_READ_TIMEOUT_S
            self._arrived_bytes = 0
            self._is_cut = False
            if not arriving:
                reactor.callLater(_LOOK_EVERY_S, look)
            arriving[id(self)] = self

        def gotLength(self, length: int | None) -> None:  # noqa: N802 - Twisted's name
            if length is not None and length > settings.INGEST_MAX_BODY_BYTES:
                super().gotLength(0)
                # Twisted would ask for the body that was just refused.
                self.requestHeaders.removeHeader(b"Expect")
                self._too_large()
                return
            self.due_at += (length or 0) / MIN_BYTES_PER_S
            super().gotLength(length)

        def handleContentChunk(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
            if self._is_cut:
                return
            self._arrived_bytes += len(data)
            if self._arrived_bytes > settings.INGEST_MAX_BODY_BYTES:
                self._too_large()
            else:
                super().handleContentChunk(data)

        def process(self) -> Any:
            arriving.pop(id(self), None)
            return None if self._is_cut else super().process()

        def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
            arriving.pop(id(self), None)
            super().connectionLost(reason)

        def _too_large(self) -> None:
            limit = settings.INGEST_MAX_BODY_BYTES
            self.cut(413, "Content Too Large", "too_large", f"at most {limit:,} bytes are taken")

        def cut(self, status: int, reason: str, code: str, message: str) -> None:
            arriving.pop(id(self), None)
            self._is_cut = True
            metrics.requests.labels(self._endpoint(), status).inc()
            body = f'{{"success":false,"code":"{code}","error":"{message}"}}'
            head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            transport = self.channel.transport
            transport.write(f"{head}Connection: close\r\n\r\n{body}".encode())
            transport.loseConnection()

        def _endpoint(self) -> str:
            # Twisted gives a request its address when all of it is there.
            address: bytes = getattr(self.channel, "_path", b"")
            found = address.partition(b"?")[0].decode("latin-1").rstrip("/")
            return found if found in endpoints else "other"

    return GuardedRequest
