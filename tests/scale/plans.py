"""Record the SQL statements of a query function, and inspect their plans in Postgres."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

# Tables that grow without limit. No query may scan one of them sequentially.
LARGE = (
    "ingest_span",
    "ingest_session",
    "ingest_trace",
    "ingest_search",
    "ingest_activity",
    "ingest_usage",
    "ingest_label",
)


def statements(query: Callable[[], object]) -> list[tuple[str, Any]]:
    """Return the SQL statements and parameters that `query` executes."""
    executed: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, values: Any, many: bool, context: Any) -> Any:
        executed.append((sql, values))
        return execute(sql, values, many, context)

    with connection.execute_wrapper(note):
        query()
    return executed


def full_scans(query: Callable[[], object]) -> list[str]:
    """Return the sequential scans of growing tables in the plans of `query`."""
    scans = []
    for sql, values in statements(query):
        if not sql.lstrip().upper().startswith(("SELECT", "WITH")):
            continue
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", values)
            (plan,) = cursor.fetchone() or ([],)
        for node in _nodes(_decode(plan)[0]["Plan"]):
            relation = node.get("Relation Name", "")
            if node["Node Type"] == "Seq Scan" and relation.startswith(LARGE):
                scans.append(f"Seq Scan on {relation}: {sql}")
    return scans


def postgres_ms(query: Callable[[], object], *, tries: int = 5) -> float:
    """Return the time that Postgres needs to plan and execute `query`.

    The best of several runs depends less on the load of the machine.
    """
    total = 0.0
    for sql, values in statements(query):
        durations_ms = []
        with connection.cursor() as cursor:
            for _ in range(tries):
                cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}", values)
                (plan,) = cursor.fetchone() or ([],)
                durations_ms.append(_decode(plan)[0]["Planning Time"] + _decode(plan)[0]["Execution Time"])
        total += min(durations_ms)
    return total


def _decode(plan: Any) -> Any:
    return json.loads(plan) if isinstance(plan, str) else plan


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def migrate_to(targets: Mapping[str, str]) -> None:
    """Migrate to the state of an earlier version, by the migrations that ours replace."""
    executor = MigrationExecutor(connection)
    executor.loader.replace_migrations = False
    executor.loader.build_graph()
    names = [executor.loader.get_migration_by_prefix(app, name).name for app, name in targets.items()]
    executor.migrate(list(zip(targets, names, strict=True)))


@contextmanager
def database(name: str, host: str) -> Iterator[None]:
    """Connect Django to another database inside the block."""
    settings = connection.settings_dict
    before = dict(settings)
    connection.close()
    settings.update(NAME=name, HOST=host, PORT="", USER="ariadne", PASSWORD="")
    try:
        yield
    finally:
        connection.close()
        settings.clear()
        settings.update(before)
