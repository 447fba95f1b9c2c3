"""What Postgres does for a question that a screen asks: every statement it causes, and how each is planned."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

# Tables that grow: reading one of them from end to end is a fault, however fast it is today.
LARGE = ("ingest_span", "ingest_session", "ingest_trace")


def statements(question: Callable[[], object]) -> list[tuple[str, Any]]:
    """The SQL, with its values, that answering `question` runs."""
    ran: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, values: Any, many: bool, context: Any) -> Any:
        ran.append((sql, values))
        return execute(sql, values, many, context)

    with connection.execute_wrapper(note):
        question()
    return ran


def full_scans(question: Callable[[], object]) -> list[str]:
    """Where the plans of `question` read a growing table from end to end, or sort all of it."""
    faults = []
    for sql, values in statements(question):
        if not sql.lstrip().upper().startswith(("SELECT", "WITH")):
            continue
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", values)
            (plan,) = cursor.fetchone() or ([],)
        for node in _nodes(_decoded(plan)[0]["Plan"]):
            relation = node.get("Relation Name", "")
            if node["Node Type"] == "Seq Scan" and relation.startswith(LARGE):
                faults.append(f"Seq Scan on {relation}: {sql}")
    return faults


def postgres_ms(question: Callable[[], object], *, tries: int = 5) -> float:
    """The time that Postgres itself takes to plan and answer, the best of a few: less moved by a busy machine."""
    total = 0.0
    for sql, values in statements(question):
        taken = []
        with connection.cursor() as cursor:
            for _ in range(tries):
                cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}", values)
                (plan,) = cursor.fetchone() or ([],)
                taken.append(_decoded(plan)[0]["Planning Time"] + _decoded(plan)[0]["Execution Time"])
        total += min(taken)
    return total


def _decoded(plan: Any) -> Any:
    return json.loads(plan) if isinstance(plan, str) else plan


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


@contextmanager
def database(name: str, host: str) -> Iterator[None]:
    """Point Django at another database for a while."""
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
