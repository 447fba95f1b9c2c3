"""Middleware for all pages, and the responses for server errors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template import loader
from django.utils.decorators import sync_and_async_middleware
from django.views.defaults import page_not_found
from psycopg_pool import PoolTimeout

_RETRY_AFTER_S = 5


@sync_and_async_middleware
def page_defaults(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Reject NUL in addresses, and keep responses out of caches."""
    if iscoroutinefunction(get_response):

        async def respond(request: HttpRequest) -> HttpResponseBase:
            return _set_cache_control(_reject_nul(request) or await get_response(request))

        return respond
    return lambda request: _set_cache_control(_reject_nul(request) or get_response(request))


def _reject_nul(request: HttpRequest) -> HttpResponseBase | None:
    # Postgres does not accept NUL in text. Without this check, the request would fail with status 500.
    if "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
        return _error_response(request, 400, "The URL must not contain NUL characters.")
    return None


def _set_cache_control(response: HttpResponseBase) -> HttpResponseBase:
    # With no-cache, the Back button showed pages after a logout.
    response.headers.setdefault("Cache-Control", "private, no-store")
    return response


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Handle an address or an object that does not exist. Below `/api/` the answer is JSON."""
    if request.path.startswith("/api/"):
        return _error_response(request, 404, "Not found. All addresses are listed at /api/schema/.")
    return page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Handle an uncaught exception. An unavailable database gives 503, anything else 500."""
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError | PoolTimeout):
        return database_unavailable(request)
    return _error_response(request, 500, "Internal server error.")


def database_unavailable(request: HttpRequest) -> HttpResponseBase:
    response = _error_response(request, 503, "The database is temporarily unavailable.")
    response.headers["Retry-After"] = str(_RETRY_AFTER_S)
    return response


def _error_response(request: HttpRequest, status: int, detail: str) -> HttpResponseBase:
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": detail}, status=status)
    name = "400.html" if status == 400 else "500.html"
    page = loader.get_template(name).render({"detail": detail, "is_unavailable": status == 503})
    return HttpResponse(page, status=status)
