"""Partitions are created ahead of time, and days past retention are dropped."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection
from people import own_cell
from retention_runs import clocks_at, expire

from ingest.cells import cells_of
from ingest.models import Project, Session, Trace
from ingest.storage import retention
from ingest.storage.database import partitions

# Passed to each run, so that a test that runs at midnight has one day.
TODAY = datetime.now(UTC).date()
NOON = datetime.combine(TODAY, time(12), UTC)

pytestmark = pytest.mark.django_db


def days() -> list[date]:
    with connection.cursor() as cursor:
        cursor.execute(partitions.LIST_PARTITIONS)
        return [partitions.partition_day(name) for (name,) in cursor.fetchall()]


def project(slug: str, **more: object) -> Project:
    return Project.objects.create(slug=slug, name=slug, **more)


def session(owner: Project, age_days: int) -> uuid.UUID:
    """Create a session of `age_days` ago with a trace and a span."""
    key, day = uuid.uuid4(), TODAY - timedelta(days=age_days)
    with connection.cursor() as cursor:
        cursor.execute(partitions.create_statement(day))
        cursor.execute(
            "INSERT INTO ingest_span (session_key, session_day, trace_id, span_id, cell, seq)"
            " VALUES (%s, %s, 't', 's', %s, 1)",
            [key, day, *cells_of(owner.pk)],
        )
    Session.objects.create(
        session_key=key, cell=own_cell(owner), session_id=str(key), day=day, created_at=datetime.now(UTC), last_seq=1
    )
    Trace.objects.create(
        trace_key=uuid.uuid4(), cell=cells_of(owner.pk)[0], trace_id="t", session_key=key, source=0, seq=1, metadata={}
    )
    return key


def spans(key: uuid.UUID) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM ingest_span WHERE session_key = %s", [key])
        (count,) = cursor.fetchone()
        return int(count)


@pytest.mark.req("P-STO-1")
def test_partitions_are_created_a_week_ahead() -> None:
    """A second run creates nothing."""
    report = retention.run(clocks=clocks_at(NOON))
    assert set(partitions.upcoming_days(TODAY)) <= set(days())
    assert retention.run(clocks=clocks_at(NOON)).created_days == []
    assert TODAY in report.created_days or TODAY in days()


@pytest.mark.req("P-STO-1")
def test_a_day_past_retention_is_dropped() -> None:
    """The partition is dropped with its sessions and traces. Newer days stay."""
    owner = project("short", retention_days=30)
    old, new = session(owner, 31), session(owner, 30)
    report = expire(NOON)
    assert report.dropped_days == [TODAY - timedelta(days=31)]
    assert (spans(old), spans(new)) == (0, 1)
    assert list(Session.objects.filter(cell__in=cells_of(owner.pk)).values_list("session_key", flat=True)) == [new]
    assert Trace.objects.filter(session_key=old).count() == 0


@pytest.mark.req("P-STO-1")
def test_other_projects_keep_their_sessions_of_the_same_day() -> None:
    """Projects without retention or under legal hold are not affected."""
    short = project("short", retention_days=7)
    keeps, held = project("keeps"), project("held", retention_days=1, legal_hold=True)
    expired, kept, on_hold = session(short, 10), session(keeps, 10), session(held, 10)
    report = expire(NOON)
    assert (report.dropped_days, report.reduced_days) == ([], [TODAY - timedelta(days=10)])
    assert [spans(key) for key in (expired, kept, on_hold)] == [0, 1, 1]


def test_a_dry_run_only_reports() -> None:
    """`manage.py partitions --dry-run` prints the changes and makes none."""
    key = session(project("short", retention_days=1), 5)
    out = StringIO()
    call_command("partitions", dry_run=True, stdout=out)
    assert f"dropped {TODAY - timedelta(days=5)}" in out.getvalue()
    assert "1 sessions and 0 transcripts would be deleted" in out.getvalue()
    assert spans(key) == 1


def test_other_partitions_are_left_alone() -> None:
    """An administrator's default partition has no day and does not disturb retention."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE ingest_span_default PARTITION OF ingest_span DEFAULT")
    session(project("brief", retention_days=1), 5)
    assert expire(NOON).dropped_days == [TODAY - timedelta(days=5)]
