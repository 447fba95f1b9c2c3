"""What screens ask is answered from indexes, on a table large enough that Postgres has the choice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from scale.filling import FIRST_PROJECT, Filled, add_old_sessions, fill
from scale.plans import database, full_scans, statements
from scale.screens import questions

SPANS = 80_000


@pytest.fixture(scope="module")
def filled(postgres: Any, django_db_blocker: Any) -> Iterator[Filled]:
    """80,000 spans of four days and a long list of sessions, in a database of their own."""
    postgres.create_database("plans")
    with database("plans", str(postgres.socket_dir)), django_db_blocker.unblock():
        call_command("migrate", verbosity=0)
        made = fill(postgres.dsn("plans"), SPANS, days=4, today=date(2026, 3, 5))
        add_old_sessions(postgres.dsn("plans"), 20_000)
        yield made
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE plans WITH (FORCE)")


def test_no_screen_reads_a_growing_table_from_end_to_end(filled: Filled) -> None:
    """Not one sequential scan of spans, sessions or traces behind the list, a session page and the tail."""
    faults = {
        name: found for name, ask in questions(FIRST_PROJECT, filled.last_seq).items() if (found := full_scans(ask))
    }
    assert faults == {}


def test_a_session_page_touches_one_partition(filled: Filled) -> None:
    """The other days' partitions are not even planned for."""
    from django.db import connection

    ask = questions(FIRST_PROJECT, filled.last_seq)["session page, tree"]
    (sql, values), *_ = statements(ask)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}", values)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert sum(f"ingest_span_{day:%Y%m%d}" in plan for day in filled.days) == 1, plan
