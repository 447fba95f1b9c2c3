"""Headers that no page should have to remember: nothing private in shared caches, no access to devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

PERMISSIONS_POLICY = "camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()"


@sync_and_async_middleware
def privacy_headers(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    if iscoroutinefunction(get_response):

        async def answer(request: HttpRequest) -> HttpResponseBase:
            return _with_headers(request, await get_response(request))

        return answer
    return lambda request: _with_headers(request, get_response(request))


def _with_headers(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
    if not request.path.startswith("/static/"):
        # The back button may show a page again, but only after asking whether its reader is still logged in.
        response.headers.setdefault("Cache-Control", "private, no-cache")
    return response
