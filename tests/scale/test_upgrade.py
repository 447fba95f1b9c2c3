"""Upgrading while senders go on: a migration may not hold a table that has grown."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db.migrations.loader import MigrationLoader

LARGE = "ingest_(span|session|trace|stray|message|content|transcript)"
# What makes Postgres read or rewrite a table while nobody else may use it.
HOLDS = [
    rf"CREATE (UNIQUE )?INDEX (?!CONCURRENTLY)[^;]* ON (ONLY )?\"?{LARGE}\"? ",
    rf"ALTER TABLE \"?{LARGE}\"? [^;]*ALTER COLUMN [^;]* TYPE ",
    rf"ALTER TABLE \"?{LARGE}\"? [^;]*ADD COLUMN (?![^;]*DEFAULT)[^;]*NOT NULL",
    rf"ALTER TABLE \"?{LARGE}\"? [^;]*ADD CONSTRAINT (?![^;]*NOT VALID)",
]
# These make the tables, which are empty then.
FIRST = {"0001_initial", "0002_spans", "0003_chain", "0004_message", "0006_stray"}


@pytest.mark.usefixtures("django_db_setup")
def test_no_later_migration_holds_a_large_table(django_db_blocker: Any) -> None:
    """Indexes are made concurrently, columns have defaults, constraints are added unchecked."""
    names = [name for app, name in MigrationLoader(None).disk_migrations if app == "ingest" and name not in FIRST]
    assert names
    for name in names:
        out = StringIO()
        with django_db_blocker.unblock():
            call_command("sqlmigrate", "ingest", name, stdout=out)
        for pattern in HOLDS:
            assert not re.search(pattern, out.getvalue()), f"{name} holds a large table:\n{out.getvalue()}"


@pytest.mark.parametrize(
    "statement",
    [
        'CREATE INDEX "x" ON "ingest_session" ("day");',
        "ALTER TABLE ingest_span ALTER COLUMN seq TYPE numeric;",
        'ALTER TABLE "ingest_trace" ADD COLUMN "x" integer NOT NULL;',
    ],
)
def test_what_holds_a_table_is_recognised(statement: str) -> None:
    """The patterns find what they are for."""
    assert any(re.search(pattern, statement) for pattern in HOLDS)
