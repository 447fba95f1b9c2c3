"""Postgres connections outside Django's ORM, and the database's current availability.

The write path runs on the event loop of the web process and must not block it, so it uses psycopg's asynchronous
connections with the parameters of Django's default database. They are read on each use because tests switch databases
in a running process.

A frozen server does not close its connections, so an open connection proves nothing. `db_probe` pings the database
and records the result in `database_status`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from django.db import connections

from ingest.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Generator

CONNECT_TIMEOUT_S = 5
CONNECTION_ERRORS = (psycopg.OperationalError, psycopg.InterfaceError, OSError)
# The server cancels a commit that takes longer, which releases the locks it holds.
STATEMENT_TIMEOUT_MS = 15_000
_OPTIONS = f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c timezone=UTC -c jit=off"
# All statements look rows up by complete keys, so one generic plan with index scans is right for any number of keys.
# Custom plans for large groups would scan whole partitions. Citus needs custom plans to find the shards.
_USE_GENERIC_PLANS = """
SELECT set_config('plan_cache_mode', 'force_generic_plan', false)
WHERE NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')
"""


@dataclass(frozen=True, slots=True)
class Node:
    """The address of a database node, as the other nodes of its cluster know it."""

    host: str
    port: int


def parameters(node: Node | None = None) -> dict[str, Any]:
    """Return the `psycopg.connect` parameters of Django's default database, or of another node of its cluster."""
    settings = connections["default"].settings_dict
    target = {
        "dbname": settings["NAME"],
        "user": settings["USER"],
        "password": settings["PASSWORD"],
        "host": settings["HOST"],
        "port": settings["PORT"],
    }
    options = {key: value for key, value in settings.get("OPTIONS", {}).items() if isinstance(value, str | int)}
    if node is not None:
        target |= {"host": node.host, "port": node.port}
    return {key: value for key, value in {**options, **target}.items() if value not in {"", None}}


def address() -> tuple[str, str, str]:
    """Return the name, host and port of the default database. Cheap enough to call on each request."""
    # Equal to `connections["default"].settings_dict`, which takes ten times as long to read.
    settings = connections.settings["default"]
    return settings["NAME"], settings["HOST"], str(settings["PORT"])


async def connect(*, application: str, node: Node | None = None) -> psycopg.AsyncConnection[Any]:
    """Open a connection in autocommit mode. Callers open transactions explicitly."""
    target = parameters(node)
    connection = await psycopg.AsyncConnection.connect(
        **{
            "connect_timeout": CONNECT_TIMEOUT_S,
            **target,
            # After those of the configured database, which are for pages. The last value of a parameter counts.
            "options": f"{target.get('options', '')} {_OPTIONS}",
            "application_name": application,
        },
        autocommit=True,
        # The write path repeats a few statements, so prepare each one on its first use.
        prepare_threshold=1,
    )
    try:
        await connection.execute(_USE_GENERIC_PLANS)
    except BaseException:
        await connection.close()
        raise
    return connection


class DatabaseStatus:
    """Availability of the database, or of one node of a cluster, as last seen by this process.

    The event loop updates it. Any thread may read it.
    """

    def __init__(self) -> None:
        self.is_available = True

    def require_available(self) -> None:
        """Raise `Unavailable` if the database is down."""
        if not self.is_available:
            raise Unavailable("The database is unavailable. Try again later.")


database_status = DatabaseStatus()


class DatabaseUnresponsive(psycopg.OperationalError):
    """The database stopped responding while a query was running."""


class FailFastConnection(psycopg.Connection[Any]):
    """A connection for threads that stops waiting when the database becomes unavailable."""

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        try:
            return super().wait(_stop_if_unavailable(gen), *arguments, **options)
        except DatabaseUnresponsive:
            # The protocol is in the middle of a response, so the connection cannot be reused.
            self.pgconn.finish()
            raise


def _stop_if_unavailable(steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run psycopg's wait generator until a wait times out while the database is unavailable."""
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and not database_status.is_available:
                raise DatabaseUnresponsive("The database does not respond.")
            wanted = steps.send(ready)
    except StopIteration as done:
        return done.value
