"""What no page should have to remember: nothing private in shared caches, no access to devices, no NUL in addresses,
and how to say that the server could not answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template import loader
from django.utils.decorators import sync_and_async_middleware
from psycopg_pool import PoolTimeout

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


def server_error(request: HttpRequest) -> HttpResponseBase:
    """What went wrong unforeseen; a database that is away is foreseen, and worth another try."""
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError | PoolTimeout):
        return database_away(request)
    return _failure(request, 500, "This request could not be answered.")


def database_away(request: HttpRequest) -> HttpResponseBase:
    response = _failure(request, 503, "The database is away for a moment.")
    response.headers["Retry-After"] = "5"
    return response


def _failure(request: HttpRequest, status: int, detail: str) -> HttpResponseBase:
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": detail}, status=status)
    return HttpResponse(loader.get_template("500.html").render(), status=status)


def _with_headers(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
    if not request.path.startswith("/static/"):
        # The back button may show a page again, but only after asking whether its reader is still logged in.
        response.headers.setdefault("Cache-Control", "private, no-cache")
    return response
