"""What no page should have to remember: nothing private in shared caches, no access to devices, no NUL in addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

PERMISSIONS_POLICY = "camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()"


@sync_and_async_middleware
def privacy_headers(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    if iscoroutinefunction(get_response):

        async def answer(request: HttpRequest) -> HttpResponseBase:
            return _with_headers(request, _refusal(request) or await get_response(request))

        return answer
    return lambda request: _with_headers(request, _refusal(request) or get_response(request))


def _refusal(request: HttpRequest) -> HttpResponseBase | None:
    # Postgres takes no NUL in a text, and would say so with a 500.
    if "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
        return HttpResponse("An address holds no NUL.", status=400, content_type="text/plain")
    return None


def _with_headers(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
    if not request.path.startswith("/static/"):
        # The back button may show a page again, but only after asking whether its reader is still logged in.
        response.headers.setdefault("Cache-Control", "private, no-cache")
    return response
