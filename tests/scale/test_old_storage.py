"""Data of the first published storage, that of commit 47027a1, opens after all later migrations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from scale.plans import database, migrate_to
from scale.test_cell_upgrade import bodies, fill_archive

from ingest.archive import transcripts, verification
from ingest.cells import cells_of
from ingest.decoding.tool_arguments import arguments_hash
from ingest.models import Label, Project, Session, Span, SpanSession, Trace, Transcript, session_key, trace_key
from ingest.storage.database import partitions
from viewer.sessions import queries

FIRST = {"ingest": "0007", "viewer": "0003"}
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAY = NOW.date()


# The same arguments in another order, before and after a compaction, and what the compaction lost.
SPANS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("a", "tool", {}, {"arguments": {"path": "a.py", "b": 1}}),
    ("c", "compact.check", {"triggered": True}, {}),
    ("b", "tool", {"input.value": {"b": 1, "path": "a.py"}}, {}),
    ("r", "compact.retention", {"by_kind": {"path": {"found": 8, "lost": 2}}}, {}),
]


@pytest.fixture(scope="module")
def upgraded(postgres: Any, django_db_blocker: Any) -> Iterator[None]:
    """A database that was filled with that storage and then migrated. Two projects have the same ids."""
    postgres.create_database("upgraded")
    with database("upgraded", str(postgres.socket_dir)), django_db_blocker.unblock():
        migrate_to(FIRST)
        with psycopg.connect(postgres.dsn("upgraded"), autocommit=True) as connection:
            connection.execute(partitions.create_statement(DAY))  # type: ignore[arg-type]
            for number, slug in enumerate(("ours", "theirs"), 1):
                fill(connection, number, slug)
                fill_archive(connection, number)
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
        " VALUES (%s, %s, 'session', %s, %s, 70, 4, 0, 0, 1, 0, 0, 0, 0, 'gpt-5', 0, 0, 0, 0)",
        [key, project, DAY, NOW],
    )
    connection.execute(
        "INSERT INTO ingest_trace (trace_key, project_id, trace_id, session_key, source, is_mixed, seq, name, metadata)"
        " VALUES (%s, %s, 'trace', %s, 1, false, 70, 'run', %s)",
        [trace, project, key, f'{{"environment": "{slug}", "other": 1}}'],
    )
    for number, (span_id, kind, data, payload) in enumerate(SPANS):
        connection.execute(
            "INSERT INTO ingest_span (session_key, session_day, trace_id, span_id, project_id, seq, kind, name, status,"
            " started_at, ended_at, data, payload) VALUES (%s, %s, 'trace', %s, %s, %s, %s, 'read', 'ok', %s, %s,"
            " %s, %s)",
            [
                *(key, DAY, span_id, project, 66 + number, kind, NOW + timedelta(seconds=number), NOW),
                json.dumps({**data, "owner": slug}),
                json.dumps({**payload, "output": f"text of {slug}"}),
            ],
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
        assert sorted(spans.values_list("span_id", flat=True)) == ["a", "b", "c", "r"]
        assert SpanSession.objects.get(**own).trace_key == trace.trace_key


@pytest.mark.usefixtures("upgraded")
def test_spans_have_one_stored_form() -> None:
    """Payloads and data of jsonb are read as before, and equal arguments have an equal hash."""
    for project in Project.objects.all():
        session = Session.objects.get(cell__in=cells_of(project.pk), session_id="session")
        for span_id, _, data, payload in SPANS:
            span = queries.span(session, f"trace:{span_id}", with_payload=True)
            assert span is not None
            assert span.row.data == {**data, "owner": project.slug}
            assert span.payload == {**payload, "output": f"text of {project.slug}"}
        spans = Span.objects.filter(cell=session.cell, session_key=session.session_key)
        hashes = dict(spans.values_list("span_id", "arguments_hash"))
        assert hashes["a"] == hashes["b"] == arguments_hash("tool", {}, {"arguments": {"b": 1, "path": "a.py"}})
        assert hashes["c"] is hashes["r"] is None


@pytest.mark.usefixtures("upgraded")
def test_the_archive_opens_and_verifies() -> None:
    for project in Project.objects.all():
        (result,) = verification.verify_all([project.pk])
        assert (result.faults, result.stored, result.deleted) == ((), 1, 1)
        (transcript,) = Transcript.objects.filter(cell__in=cells_of(project.pk))
        assert list(transcripts.lines(transcript)) == list(bodies(project.pk).values())


@pytest.mark.usefixtures("upgraded")
def test_a_recount_counts_what_earlier_versions_did_not() -> None:
    call_command("recount", stdout=StringIO())
    for session in Session.objects.filter(session_id="session"):
        assert (session.facts_total, session.facts_kept, session.span_count) == (8, 6, 4)


@pytest.mark.usefixtures("upgraded")
def test_an_upgraded_database_has_the_schema_of_a_new_one(postgres: Any) -> None:
    """With the same columns, constraints, indexes, triggers and sequences. Columns may be in another order."""
    postgres.create_database("installed")
    with database("installed", str(postgres.socket_dir)):
        call_command("migrate", verbosity=0)
    schemas = []
    for name in ("installed", "upgraded"):
        with psycopg.connect(postgres.dsn(name)) as client:
            schemas.append({row for statement in SCHEMA for row in client.execute(statement)})  # type: ignore[arg-type]
    assert len(schemas[0]) > 500
    assert schemas[0] ^ schemas[1] == set()


SCHEMA = (
    "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attstorage,"
    " pg_get_expr(d.adbin, d.adrelid), a.attidentity FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
    " WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
    " AND a.attnum > 0 AND NOT a.attisdropped",
    "SELECT c.conrelid::regclass::text, c.conname, pg_get_constraintdef(c.oid) FROM pg_constraint c"
    " JOIN pg_class t ON t.oid = c.conrelid WHERE c.connamespace = 'public'::regnamespace AND c.contype <> 'n'"
    " AND NOT t.relispartition",
    "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename !~ '_[0-9]{8}$'",
    "SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "SELECT relname, relacl::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'",
)
