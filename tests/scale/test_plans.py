"""Page queries use indexes, on tables that are large enough for a sequential scan to be an option."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db.models import Q
from scale.page_queries import page_queries
from scale.plans import database, full_scans, statements
from scale.span_generator import FIRST_PROJECT, GeneratedSpans, add_old_sessions, fill

from ingest.decoding.facts import LOSSY_SHARE
from ingest.models import IS_LOSSY

SPANS = 80_000


@pytest.fixture(scope="module")
def generated(postgres: Any, django_db_blocker: Any) -> Iterator[GeneratedSpans]:
    """Fill a separate database with 80,000 spans of four days and a long list of sessions."""
    postgres.create_database("plans")
    with database("plans", str(postgres.socket_dir)), django_db_blocker.unblock():
        call_command("migrate", verbosity=0)
        totals = fill(postgres.dsn("plans"), SPANS, days=4, today=date(2026, 3, 5))
        add_old_sessions(postgres.dsn("plans"), 20_000)
        yield totals
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE plans WITH (FORCE)")


def test_page_queries_scan_no_growing_table(generated: GeneratedSpans) -> None:
    """Home, trends, search, session page and tail use no sequential scan of a table that grows."""
    queries = page_queries(FIRST_PROJECT, generated.last_seq)
    scans = {name: lines for name, query in queries.items() if (lines := full_scans(query))}
    assert scans == {}


def test_the_index_of_lossy_sessions_has_the_current_share() -> None:
    assert Q(worst_retention__lt=LOSSY_SHARE) == IS_LOSSY


def test_session_page_reads_one_partition(generated: GeneratedSpans) -> None:
    """The plan excludes the partitions of other days."""
    from django.db import connection

    query = page_queries(FIRST_PROJECT, generated.last_seq)["session page, tree"]
    (sql, values), *_ = statements(query)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}", values)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert sum(f"ingest_span_{day:%Y%m%d}" in plan for day in generated.days) == 1, plan
