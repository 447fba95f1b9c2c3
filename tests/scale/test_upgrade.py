"""Migrations must not lock large tables, so that agents can send during an upgrade."""

from __future__ import annotations

import re
from importlib import import_module
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations import RunSQL
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from people import create_project, create_session

from ingest.models import Session

LARGE = "ingest_(span|session|trace|stray|usage|label|message|content|transcript)"
# Statements that read or rewrite a table under an exclusive lock.
LOCKING_STATEMENTS = [
    rf"CREATE (UNIQUE )?INDEX (?!CONCURRENTLY)[^;]* ON (ONLY )?\"?{LARGE}\"? ",
    rf"ALTER TABLE \"?{LARGE}\"? [^;]*ALTER COLUMN [^;]* TYPE ",
    rf"ALTER TABLE \"?{LARGE}\"? [^;]*ADD COLUMN (?![^;]*DEFAULT)[^;]*NOT NULL",
    rf"ALTER TABLE \"?{LARGE}\"? [^;]*ADD CONSTRAINT (?![^;]*NOT VALID)",
]
# These migrations create the tables.
FIRST = {
    "0001_squashed_storage",
    "0001_initial",
    "0002_spans",
    "0003_chain",
    "0004_message",
    "0006_stray",
    "0011_usage",
    "0017_label",
}
# The server is stopped during the upgrade to 0.2.0, which changes the keys of all growing tables.
REWRITES = {"0023_cells_of_figures", "0024_cells_of_the_archive", "0025_cells_of_spans", "0026_cells_of_sessions"}


@pytest.mark.usefixtures("django_db_setup")
def test_later_migrations_do_not_lock_large_tables(django_db_blocker: Any) -> None:
    """Indexes are created concurrently, columns have defaults, and constraints are added as NOT VALID."""
    names = [
        name for app, name in MigrationLoader(None).disk_migrations if app == "ingest" and name not in FIRST | REWRITES
    ]
    assert names
    for name in names:
        out = StringIO()
        with django_db_blocker.unblock():
            call_command("sqlmigrate", "ingest", name, stdout=out)
        for pattern in LOCKING_STATEMENTS:
            assert not re.search(pattern, out.getvalue()), f"{name} locks a large table:\n{out.getvalue()}"


def test_a_new_database_runs_few_migrations() -> None:
    """One for each app. Those that they replace are for databases of earlier versions."""
    own = [name for app, name in MigrationLoader(None).graph.nodes if app in {"ingest", "viewer"}]
    assert own == ["0001_squashed_storage"] * 2


def test_each_string_of_a_migration_has_one_command() -> None:
    """A cluster prepares statements, and a prepared statement has one command."""
    for (app, name), migration in MigrationLoader(None, replace_migrations=False).disk_migrations.items():
        for operation in migration.operations if app in {"ingest", "viewer"} else ():
            for sql in (operation.sql, operation.reverse_sql) if isinstance(operation, RunSQL) else ():
                for statement in [sql] if isinstance(sql, str) else sql or ():
                    command = re.sub(r"\$\$.*?\$\$|--[^\n]*|'[^']*'", "", statement, flags=re.DOTALL).strip()
                    assert ";" not in command.removesuffix(";"), f"{app} {name}: {statement}"


@pytest.mark.parametrize(
    "statement",
    [
        'CREATE INDEX "x" ON "ingest_session" ("day");',
        "ALTER TABLE ingest_span ALTER COLUMN seq TYPE numeric;",
        'ALTER TABLE "ingest_trace" ADD COLUMN "x" integer NOT NULL;',
    ],
)
def test_locking_statement_is_detected(statement: str) -> None:
    """The patterns match statements that lock a table."""
    assert any(re.search(pattern, statement) for pattern in LOCKING_STATEMENTS)


@pytest.mark.django_db
def test_stored_fallbacks_no_longer_count_as_errors() -> None:
    """Sessions without a fallback keep their count."""
    project = create_project()
    for name, errors, fallbacks in (("both", 3, 1), ("errors", 2, 0), ("fallback", 1, 1)):
        key = create_session(project, session_id=name).session_key
        Session.objects.filter(session_key=key).update(error_count=errors, fallback_count=fallbacks)
    with connection.cursor() as cursor:
        cursor.execute(import_module("ingest.migrations.0019_errors_without_fallbacks").FORWARD)
    counts = dict(Session.objects.values_list("session_id", "error_count"))
    assert counts == {"both": 2, "errors": 2, "fallback": 0}


@pytest.mark.django_db
def test_a_database_of_a_later_version_is_refused() -> None:
    """Nothing is changed, and the message names what to do."""
    MigrationRecorder(connection).record_applied("ingest", "9999_later")
    with pytest.raises(CommandError, match=r"ingest\.9999_later.*Start that version"):
        call_command("setup", verbosity=0)
