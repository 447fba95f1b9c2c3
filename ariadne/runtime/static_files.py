"""Serve collected static files in front of Django.

A page loads some sixty small files. Django's middleware takes several milliseconds for each of them, and this takes a
fraction of one. Only files with a hash in their name are served here. They never change, so they are kept in memory and
browsers keep them for a year. All other requests go on to Django.
"""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage

_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".woff2": "font/woff2"}
_METHODS = {"GET", "HEAD"}
Headers = list[tuple[bytes, bytes]]


class StaticFiles:
    """An ASGI application that serves hashed files and passes other requests on."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._names: frozenset[str] | None = None
        self._files: dict[tuple[str, bool], tuple[Headers, bytes]] = {}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        response = self._respond(scope)
        if response is None:
            await self._application(scope, receive, send)
            return
        headers, body = response
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _respond(self, scope: dict[str, Any]) -> tuple[Headers, bytes] | None:
        path: str = scope["path"]
        if not path.startswith(settings.STATIC_URL) or scope["method"] not in _METHODS:
            return None
        # Django redirects plain HTTP in production.
        if getattr(settings, "SECURE_SSL_REDIRECT", False):
            return None
        name = path[len(settings.STATIC_URL) :]
        if self._names is None:
            self._names = frozenset(getattr(staticfiles_storage, "hashed_files", {}).values())
        if name not in self._names:
            return None
        accepts_gzip = any(key == b"accept-encoding" and b"gzip" in value for key, value in scope["headers"])
        return self._read(name, accepts_gzip=accepts_gzip)

    def _read(self, name: str, *, accepts_gzip: bool) -> tuple[Headers, bytes] | None:
        known = self._files.get((name, accepts_gzip))
        if known is None:
            known = _load(Path(settings.STATIC_ROOT) / name, accepts_gzip=accepts_gzip)
            if known is not None:
                self._files[name, accepts_gzip] = known
        return known


def _load(path: Path, *, accepts_gzip: bool) -> tuple[Headers, bytes] | None:
    compressed = path.with_name(f"{path.name}.gz")
    is_gzip = accepts_gzip and compressed.exists()
    try:
        body = (compressed if is_gzip else path).read_bytes()
    except OSError:
        return None
    content_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    headers = {
        "Content-Type": content_type,
        "Content-Length": str(len(body)),
        "Cache-Control": "max-age=31536000, public, immutable",
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        "Access-Control-Allow-Origin": "*",
        **({"Content-Encoding": "gzip"} if is_gzip else {}),
    }
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()], body
