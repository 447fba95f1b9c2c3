"""A minimal view of an ASGI request."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from django.conf import settings

from ingest.http.body import Receive, read_body

Scope = dict[str, Any]
_PROTOBUF_TYPES = {"application/x-protobuf", "application/protobuf", "application/octet-stream"}


class Request:
    """Headers, query and body of a request, read on demand."""

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
        """True if the client sends and expects protobuf."""
        return self.media_type in _PROTOBUF_TYPES

    def query(self) -> dict[str, str]:
        """Return the query parameters. The last value of a repeated one wins."""
        parameters = parse_qs(self._query.decode("latin-1"), keep_blank_values=True)
        return {key: values[-1] for key, values in parameters.items()}

    async def body(self) -> bytes:
        """Return the decompressed body."""
        return await read_body(
            self._receive,
            content_length=self.header(b"content-length"),
            encoding=self.header(b"content-encoding"),
            max_bytes=settings.INGEST_MAX_BODY_BYTES,
            timeout_s=settings.INGEST_READ_TIMEOUT_S,
        )
