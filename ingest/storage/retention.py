"""Create partitions ahead of time and delete sessions past their project's retention.

A day's partition is dropped once all projects with sessions in it have passed their retention. Until then, the sessions
of the projects that have passed theirs are deleted row by row. Projects under legal hold, and projects without a
retention period, keep everything. Deletion runs under the lock of each cell, so no commit sees a partial state.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.dispatch import Signal

from ingest.archive import transcripts
from ingest.cells import cells_of
from ingest.models import Activity, HourlyUsage, Project, Session, Trend
from ingest.storage import labels, messages, sequence
from ingest.storage.database import partitions

logger = logging.getLogger("ariadne.ingest")

# DROP TABLE waits for readers, and writers queue behind it. After this time it fails and the next run retries.
_LOCK_TIMEOUT = "5s"
_TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('ingest retention'))"

expiring = Signal()
"""Sent in the transaction that deletes sessions, with `session_keys`, a query of their keys."""

_DELETE_TRACES = """
DELETE FROM ingest_trace WHERE session_key IN
  (SELECT session_key FROM ingest_session WHERE day = %s AND project_id = ANY(%s))
"""
_DELETE_STRAYS = """
DELETE FROM ingest_stray WHERE session_key IN
  (SELECT session_key FROM ingest_session WHERE day = %s AND project_id = ANY(%s))
"""
_DELETE_USAGE = """
DELETE FROM ingest_usage WHERE session_key IN
  (SELECT session_key FROM ingest_session WHERE day = %s AND project_id = ANY(%s))
"""


@dataclass(slots=True)
class Report:
    """Changes that a run made, or would make in a dry run."""

    created_days: list[date] = field(default_factory=list)
    dropped_days: list[date] = field(default_factory=list)
    reduced_days: list[date] = field(default_factory=list)
    session_count: int = 0


def run(*, today: date | None = None, is_dry: bool = False) -> Report:
    """Create missing partitions and delete expired sessions.

    Several processes may call it at once. One of them deletes, the others return.
    """
    today = today or datetime.now(UTC).date()
    report = Report()
    existing_days = _existing_days()
    for day in partitions.upcoming_days(today):
        if day not in existing_days:
            report.created_days.append(day)
            if not is_dry:
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute(partitions.create_statement(day))
    for day in sorted(day for day in existing_days if day < today):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_TRY_LOCK)
            (is_locked,) = cursor.fetchone() or (False,)
            if not is_locked:
                return report
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
            _expire_day(cursor, day, today, report, is_dry=is_dry)
    if not is_dry:
        _expire_messages(today)
        _expire_trends(today)
        transcripts.expire()
        if report.session_count:
            logger.info("retention sessions=%d days=%d", report.session_count, len(report.dropped_days))
    return report


def _expire_messages(today: date) -> None:
    """Delete message texts that no session within retention refers to."""
    with connection.cursor() as cursor:
        for project in Project.objects.filter(legal_hold=False, retention_days__isnull=False):
            cursor.execute(messages.EXPIRE, [project.pk, today - timedelta(days=project.retention_days or 0)])
        cursor.execute("DELETE FROM ingest_message WHERE project_id NOT IN (SELECT id FROM ingest_project)")


def _expire_trends(today: date) -> None:
    """Delete hourly figures from before the retention period. Their sessions are deleted by the day they began."""
    existing_ids = Project.objects.values("pk")
    for table in (Trend, Activity, HourlyUsage):
        for project in Project.objects.filter(legal_hold=False, retention_days__isnull=False):
            first_day = today - timedelta(days=project.retention_days or 0)
            first_hour = datetime.combine(first_day, datetime.min.time(), UTC)
            table.objects.filter(project_id=project.pk, hour__lt=first_hour).delete()
        table.objects.exclude(project_id__in=existing_ids).delete()


def _existing_days() -> set[date]:
    with connection.cursor() as cursor:
        cursor.execute(partitions.LIST_PARTITIONS)
        return {partitions.partition_day(name) for (name,) in cursor.fetchall()}


def _expired_projects(day: date, today: date, project_ids: set[int]) -> set[int]:
    """Return the projects that no longer keep the sessions of `day`, including projects that were deleted."""
    candidates = Project.objects.filter(pk__in=project_ids, legal_hold=False, retention_days__isnull=False)
    expired = {project.pk for project in candidates if day < today - timedelta(days=project.retention_days or 0)}
    return expired | (project_ids - set(Project.objects.values_list("pk", flat=True)))


def _expire_day(cursor: CursorWrapper, day: date, today: date, report: Report, *, is_dry: bool) -> None:
    project_ids = set(Session.objects.filter(day=day).values_list("project_id", flat=True).distinct())
    expired_ids = _expired_projects(day, today, project_ids)
    if project_ids and not expired_ids:
        return
    drops_partition = expired_ids == project_ids
    report.session_count += Session.objects.filter(day=day, project_id__in=expired_ids).count()
    (report.dropped_days if drops_partition else report.reduced_days).append(day)
    if is_dry:
        return
    for cell in cells_of(*sorted(expired_ids)):
        sequence.lock(cursor, cell)
    arguments: tuple[date, list[int]] = (day, sorted(expired_ids))
    expired = Session.objects.filter(day=day, project_id__in=expired_ids)
    expiring.send(sender=None, session_keys=expired.values("session_key"))
    cursor.execute(_DELETE_TRACES, arguments)
    cursor.execute(_DELETE_STRAYS, arguments)
    cursor.execute(_DELETE_USAGE, arguments)
    cursor.execute(labels.DELETE_DAY, arguments)
    if not drops_partition:
        cursor.execute("DELETE FROM ingest_search WHERE session_day = %s AND project_id = ANY(%s)", arguments)
        cursor.execute("DELETE FROM ingest_span WHERE session_day = %s AND project_id = ANY(%s)", arguments)
    cursor.execute("DELETE FROM ingest_session WHERE day = %s AND project_id = ANY(%s)", arguments)
    if drops_partition:
        cursor.execute(f"DROP TABLE {partitions.partition_name(day)}")
        cursor.execute(f"DROP TABLE IF EXISTS {partitions.search_partition_name(day)}")
