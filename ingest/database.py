"""Connections of the write path to the database that Django is configured with.

The write path runs on the web process's event loop and must never wait for a thread, so it has connections of its
own. Parameters are read at the time of use: tests swap databases under a running process.
"""

from __future__ import annotations

from typing import Any

import psycopg
from django.db import connections

CONNECT_TIMEOUT_S = 5
# A commit that has not come back after this long never will; the server ends it, so that the lock it holds is freed.
STATEMENT_TIMEOUT_MS = 15_000


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
    settings = connections["default"].settings_dict
    return settings["NAME"], settings["HOST"], str(settings["PORT"])


async def connect(*, application: str) -> psycopg.AsyncConnection[Any]:
    """A new connection in autocommit mode: transactions are opened where they are needed."""
    return await psycopg.AsyncConnection.connect(
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
