"""Data of the first published storage, that of commit 47027a1, opens after all later migrations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from scale.plans import database

from ingest.cells import cells_of
from ingest.models import Label, Project, Span, SpanSession, Trace, session_key, trace_key
from ingest.storage.database import partitions

FIRST = {"ingest": "0007", "viewer": "0003"}
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAY = NOW.date()


@pytest.fixture(scope="module")
def upgraded(postgres: Any, django_db_blocker: Any) -> Iterator[None]:
    """A database that was filled with that storage and then migrated. Two projects have the same ids."""
    postgres.create_database("upgraded")
    with database("upgraded", str(postgres.socket_dir)), django_db_blocker.unblock():
        for app, name in FIRST.items():
            call_command("migrate", app, name, verbosity=0)
        with psycopg.connect(postgres.dsn("upgraded"), autocommit=True) as connection:
            connection.execute(partitions.create_statement(DAY))  # type: ignore[arg-type]
            for number, slug in enumerate(("ours", "theirs"), 1):
                fill(connection, number, slug)
        call_command("migrate", verbosity=0)
        yield
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE upgraded WITH (FORCE)")


def fill(connection: psycopg.Connection[Any], project: int, slug: str) -> None:
    """Add a project with a session of a trace and two spans."""
    key, trace = session_key(project, "session"), trace_key(project, "trace")
    connection.execute(
        "INSERT INTO ingest_project (id, slug, name, created_at, legal_hold) VALUES (%s, %s, %s, %s, false)",
        [project, slug, slug, NOW],
    )
    connection.execute(
        "INSERT INTO ingest_session (session_key, project_id, session_id, day, created_at, last_seq, span_count,"
        " running_count, error_count, turn_count, turn_span_count, check_count, compaction_count, fallback_count,"
        " model, peak_tokens, window_tokens, trigger_tokens, last_tokens)"
        " VALUES (%s, %s, 'session', %s, %s, 70, 2, 0, 0, 1, 0, 0, 0, 0, 'gpt-5', 0, 0, 0, 0)",
        [key, project, DAY, NOW],
    )
    connection.execute(
        "INSERT INTO ingest_trace (trace_key, project_id, trace_id, session_key, source, is_mixed, seq, name, metadata)"
        " VALUES (%s, %s, 'trace', %s, 1, false, 70, 'run', %s)",
        [trace, project, key, f'{{"environment": "{slug}", "other": 1}}'],
    )
    for number, span_id in enumerate(("a", "b")):
        connection.execute(
            "INSERT INTO ingest_span (session_key, session_day, trace_id, span_id, project_id, seq, kind, name, status,"
            " started_at, ended_at, data, payload) VALUES (%s, %s, 'trace', %s, %s, %s, 'tool', 'read', 'ok', %s, %s,"
            " %s, %s)",
            [key, DAY, span_id, project, 69 + number, NOW, NOW, f'{{"owner": "{slug}"}}', '{"output": "text"}'],
        )
    connection.execute("INSERT INTO ingest_stray (trace_key, span_id, session_key) VALUES (%s, 'b', %s)", [trace, key])


@pytest.mark.usefixtures("upgraded")
def test_labels_are_read_from_stored_traces() -> None:
    """Each belongs to the cell of its project."""
    labels = set(Label.objects.values_list("cell", "session_key", "key", "value"))
    assert labels == {
        (*cells_of(project.pk), session_key(project.pk, "session"), "environment", project.slug)
        for project in Project.objects.all()
    }
    assert len(labels) == 2


@pytest.mark.usefixtures("upgraded")
def test_rows_are_in_the_cell_of_their_project() -> None:
    """Two projects with the same ids keep their own rows."""
    for project in Project.objects.all():
        own = {"cell__in": cells_of(project.pk)}
        trace = Trace.objects.get(**own)
        assert (trace.trace_key, trace.metadata["environment"]) == (trace_key(project.pk, "trace"), project.slug)
        spans = Span.objects.filter(**own, session_key=session_key(project.pk, "session"))
        assert sorted(spans.values_list("span_id", flat=True)) == ["a", "b"]
        assert SpanSession.objects.get(**own).trace_key == trace.trace_key
