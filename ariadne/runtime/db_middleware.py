"""Pages do not wait for a database that does not answer.

`ingest` finds out; here its readers are told: a request that arrives meanwhile is answered at once, and one that is
waiting stops waiting (`ingest.storage.connections.GuardedConnection`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from ingest.storage.connections import CONNECT_TIMEOUT_S, GuardedConnection, presence
from viewer.middleware import database_away


@sync_and_async_middleware
def while_away(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """503 with Retry-After for whatever needs the database, as long as it is away."""
    if iscoroutinefunction(get_response):

        async def answer(request: HttpRequest) -> HttpResponseBase:
            return database_away(request) if presence.is_away else await get_response(request)

        return answer
    return lambda request: database_away(request) if presence.is_away else get_response(request)


def connection_options(max_connections: int) -> dict[str, Any]:
    """What Django's database options gain in a web process, whose threads share a few connections."""
    return {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "pool": {
            "connection_class": GuardedConnection,
            "min_size": 1,
            "max_size": max_connections,
            # Whoever finds none free waits a moment, then is told.
            "timeout": 5.0,
            # Not longer: a place in the pool that is kept for a connection to come is no use to a request now.
            "reconnect_timeout": 5.0,
        },
    }
