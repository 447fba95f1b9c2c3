"""Fail page requests immediately while the database is down.

`ingest.storage.database.db_probe` pings the database. While it is down, new requests get a 503 here, and queries that
are already waiting are aborted by `ingest.storage.database.connections.FailFastConnection`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from ingest.storage.database.connections import CONNECT_TIMEOUT_S, FailFastConnection, database_status
from viewer.middleware import database_unavailable


@sync_and_async_middleware
def reject_while_database_is_down(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Answer 503 with Retry-After while the database is down."""
    if iscoroutinefunction(get_response):

        async def answer(request: HttpRequest) -> HttpResponseBase:
            return database_unavailable(request) if not database_status.is_available else await get_response(request)

        return answer
    return lambda request: database_unavailable(request) if not database_status.is_available else get_response(request)


def connection_options(max_connections: int, *, timeout_s: int) -> dict[str, Any]:
    """Return the extra Django database options of a web process: a small connection pool shared by its threads.

    Statements end after `timeout_s`, because the request has been answered by then.
    """
    return {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "options": f"-c statement_timeout={timeout_s * 1000}",
        "pool": {
            "connection_class": FailFastConnection,
            "min_size": 1,
            "max_size": max_connections,
            # Seconds to wait for a free connection before the request fails.
            "timeout": 5.0,
            # Kept short because a slot reserved for a pending reconnect cannot serve requests.
            "reconnect_timeout": 5.0,
        },
    }
