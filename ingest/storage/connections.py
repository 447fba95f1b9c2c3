"""Connections to the database that Django is configured with, and whether it answers.

The write path runs on the web process's event loop and must never wait for a thread, so it has connections of its
own. Parameters are read at the time of use: tests swap databases under a running process. A server that is frozen
rather than gone breaks no connection, so nobody waits for it on the strength of one: see `presence`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from django.db import connections

from ingest.http.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Generator

CONNECT_TIMEOUT_S = 5
# A commit that has not come back after this long never will; the server ends it, so that the lock it holds is freed.
STATEMENT_TIMEOUT_MS = 15_000
# Lookups by whole keys: planned once, by the index, whatever the number of keys. Planned for its own number each time,
# a large group would read whole days instead. Citus must know the keys to plan at all.
_PLAN_ONCE = """
SELECT set_config('plan_cache_mode', 'force_generic_plan', false)
WHERE NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')
"""


def parameters() -> dict[str, Any]:
    """What `psycopg.connect` needs for Django's default database."""
    settings = connections["default"].settings_dict
    found = {
        "dbname": settings["NAME"],
        "user": settings["USER"],
        "password": settings["PASSWORD"],
        "host": settings["HOST"],
        "port": settings["PORT"],
    }
    options = {key: value for key, value in settings.get("OPTIONS", {}).items() if isinstance(value, str | int)}
    return {key: value for key, value in {**options, **found}.items() if value not in {"", None}}


def address() -> tuple[str, str, str]:
    """Which database that is: quick to ask with every request."""
    # The same as those of `connections["default"]`, which costs ten times as much to ask for.
    settings = connections.settings["default"]
    return settings["NAME"], settings["HOST"], str(settings["PORT"])


async def connect(*, application: str) -> psycopg.AsyncConnection[Any]:
    """A new connection in autocommit mode: transactions are opened where they are needed."""
    connection = await psycopg.AsyncConnection.connect(
        **{
            "connect_timeout": CONNECT_TIMEOUT_S,
            "options": f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c timezone=UTC -c jit=off",
            **parameters(),
            "application_name": application,
        },
        autocommit=True,
        # The same few statements are run for ever: prepare them at once.
        prepare_threshold=1,
    )
    try:
        await connection.execute(_PLAN_ONCE)
    except BaseException:
        await connection.close()
        raise
    return connection


class Presence:
    """Whether the database answers, as this process last found it. The event loop asks; every thread may look."""

    def __init__(self) -> None:
        self.is_away = False

    def require(self) -> None:
        """`Unavailable` while the database is away."""
        if self.is_away:
            raise Unavailable("the database is away")


presence = Presence()


class Silent(psycopg.OperationalError):
    """The database was asked, and does not answer anybody."""


class GuardedConnection(psycopg.Connection[Any]):
    """A connection for threads: waits as long as a question takes, but not for a database that is away."""

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        try:
            return super().wait(_while_present(gen), *arguments, **options)
        except Silent:
            # In the middle of an answer that nobody will read: of no use to the next one.
            self.pgconn.finish()
            raise


def _while_present(waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """What `waiting` does, until it has waited in vain while the database went away."""
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            if not ready and presence.is_away:
                raise Silent("the database does not answer")
            wanted = waiting.send(ready)
    except StopIteration as done:
        return done.value
