"""Serve the static files of this version in front of Django.

The address of a file contains a digest of all files: `/static/DIGEST/js/app.js`. Relative imports and `url(…)` stay in
one version, and browsers keep each file for a year, whether it is a module of a checkout or a bundle of the wheel.
Django's middleware takes several milliseconds per file, and this takes a fraction of one.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.utils.functional import cached_property

_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".woff2": "font/woff2"}
_COMPRESSED = {".js", ".css", ".svg", ".map"}
_METHODS = {"GET", "HEAD"}
# The browsable API is disabled, so its files are not served.
_UNUSED = ["rest_framework"]
Headers = list[tuple[bytes, bytes]]


class VersionedStorage(StaticFilesStorage):
    """The addresses of static files. `{% static %}` asks this storage."""

    @cached_property
    def base_url(self) -> str:
        return f"{settings.STATIC_URL}{version()}/"


@cache
def static_files() -> dict[str, Path]:
    """Return the static files of all applications by name. As in Django, the first file with a name wins."""
    files: dict[str, Path] = {}
    for finder in get_finders():
        for name, storage in finder.list(_UNUSED):
            files.setdefault(name, Path(storage.path(name)))
    return files


@cache
def version() -> str:
    """Return a digest of all static files, which is the same on all machines with the same files."""
    digest = hashlib.sha256()
    for name, path in sorted(static_files().items()):
        digest.update(f"{name}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


class StaticFiles:
    """An ASGI application that serves static files and passes other requests on."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._bodies: dict[tuple[str, bool], tuple[Headers, bytes]] = {}

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
        requested, _, name = path[len(settings.STATIC_URL) :].partition("/")
        if name not in static_files():
            return None
        accepts_gzip = any(key == b"accept-encoding" and b"gzip" in value for key, value in scope["headers"])
        if (name, accepts_gzip) not in self._bodies:
            self._bodies[name, accepts_gzip] = _load(static_files()[name], accepts_gzip=accepts_gzip)
        headers, body = self._bodies[name, accepts_gzip]
        # During an upgrade, a page of one version may ask a process of another. The browser must not keep that answer.
        caching = b"max-age=31536000, public, immutable" if requested == version() else b"no-store"
        return [*headers, (b"cache-control", caching)], body


def _load(path: Path, *, accepts_gzip: bool) -> tuple[Headers, bytes]:
    body = path.read_bytes()
    is_gzip = accepts_gzip and path.suffix in _COMPRESSED
    if is_gzip:
        body = gzip.compress(body, 6, mtime=0)
    headers = {
        "Content-Type": _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream",
        "Content-Length": str(len(body)),
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        "Access-Control-Allow-Origin": "*",
        **({"Content-Encoding": "gzip"} if is_gzip else {}),
    }
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()], body
