"""Make the coming days' partitions and drop what is older than its project keeps.

A day's partition is dropped whole once every project with sessions in it lets it go; before that, the sessions of those
that do are deleted. A project under legal hold, or without a number of days, keeps everything. Runs under each
project's write lock, so no commit sees half of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from ingest.archive import transcripts
from ingest.models import Project, Session
from ingest.storage import messages, partitions
from ingest.storage.commit import LOCK_SPACE

# Dropping waits for readers of the table; rather than have writers queue up behind it, it tries again next time.
_LOCK_TIMEOUT = "5s"
_RUNNER = "SELECT pg_try_advisory_xact_lock(hashtext('ingest retention'))"

_DELETE_TRACES = """
DELETE FROM ingest_trace WHERE session_key IN
  (SELECT session_key FROM ingest_session WHERE day = %s AND project_id = ANY(%s))
"""
_DELETE_STRAYS = """
DELETE FROM ingest_stray WHERE session_key IN
  (SELECT session_key FROM ingest_session WHERE day = %s AND project_id = ANY(%s))
"""


@dataclass(slots=True)
class Report:
    """What one run did, or would do."""

    made: list[date] = field(default_factory=list)
    dropped: list[date] = field(default_factory=list)
    thinned: list[date] = field(default_factory=list)
    sessions: int = 0


def run(*, today: date | None = None, is_dry: bool = False) -> Report:
    """Keep the partitions in order. Several processes may call it at once; one works, the others return."""
    today = today or datetime.now(UTC).date()
    report = Report()
    existing = _existing()
    for day in partitions.days_from(today):
        if day not in existing:
            report.made.append(day)
            if not is_dry:
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute(partitions.create_statement(day))
    for day in sorted(day for day in existing if day < today):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_RUNNER)
            (is_ours,) = cursor.fetchone() or (False,)
            if not is_ours:
                return report
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
            _expire(cursor, day, today, report, is_dry=is_dry)
    if not is_dry:
        _forget_messages(today)
        transcripts.expire()
    return report


def _forget_messages(today: date) -> None:
    """Texts that no session within retention came with."""
    with connection.cursor() as cursor:
        for project in Project.objects.filter(legal_hold=False, retention_days__isnull=False):
            cursor.execute(messages.EXPIRE, [project.pk, today - timedelta(days=project.retention_days or 0)])
        cursor.execute("DELETE FROM ingest_message WHERE project_id NOT IN (SELECT id FROM ingest_project)")


def _existing() -> set[date]:
    with connection.cursor() as cursor:
        cursor.execute(partitions.EXISTING)
        return {partitions.day_of(name) for (name,) in cursor.fetchall()}


def _expire(cursor: CursorWrapper, day: date, today: date, report: Report, *, is_dry: bool) -> None:
    held = set(Session.objects.filter(day=day).values_list("project_id", flat=True).distinct())
    gone = {
        project.pk
        for project in Project.objects.filter(pk__in=held, legal_hold=False, retention_days__isnull=False)
        if day < today - timedelta(days=project.retention_days or 0)
    }
    # Sessions whose project was deleted belong to nobody.
    gone |= held - set(Project.objects.values_list("pk", flat=True))
    is_whole = gone == held
    if not gone and held:
        return
    report.sessions += Session.objects.filter(day=day, project_id__in=gone).count()
    (report.dropped if is_whole else report.thinned).append(day)
    if is_dry:
        return
    for project_id in sorted(gone):
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK_SPACE, project_id])
    arguments: tuple[date, list[int]] = (day, sorted(gone))
    cursor.execute(_DELETE_TRACES, arguments)
    cursor.execute(_DELETE_STRAYS, arguments)
    if not is_whole:
        cursor.execute("DELETE FROM ingest_span WHERE session_day = %s AND project_id = ANY(%s)", arguments)
    cursor.execute("DELETE FROM ingest_session WHERE day = %s AND project_id = ANY(%s)", arguments)
    if is_whole:
        cursor.execute(f"DROP TABLE {partitions.name_of(day)}")
