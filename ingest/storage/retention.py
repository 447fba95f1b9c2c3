"""Create partitions ahead of time and delete data past its project's retention.

A day's partition is dropped once all projects with sessions in it have passed their retention. Until then, the sessions
of the projects that have passed theirs are deleted row by row. Projects under legal hold, and projects without a
retention period, keep everything. Deletion runs under the lock of each cell, so no commit sees a partial state.

Nothing is deleted before it was marked for a day, or by a clock that is not plausible: see
`ingest.storage.retention_clock`. Each deletion is a line in the log and an entry of the audit log.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Count
from django.dispatch import Signal

from ingest import metrics
from ingest.archive import transcripts
from ingest.cells import cells_of, project_of
from ingest.models import Activity, HourlyUsage, Message, Project, Session, Transcript, Trend
from ingest.storage import messages, retention_clock, sequence
from ingest.storage.database import partitions
from ingest.storage.database.job_lock import try_lock
from ingest.storage.retention_clock import Clocks

logger = logging.getLogger("ariadne.ingest")

# DROP TABLE waits for readers, and writers queue behind it. After this time it fails and the next run retries.
_LOCK_TIMEOUT = "5s"
_JOB = "ingest retention"
_HOURLY_TABLES = (Trend, Activity, HourlyUsage)

expiring = Signal()
"""Sent in the transaction that deletes sessions, with their `cell` and `session_keys`, a query of their keys."""
deleted = Signal()
"""Sent in the transaction that deleted data of a project, with `project_id`, `target` and `counts`."""

_OF_EXPIRED_SESSIONS = """
session_key IN (SELECT session_key FROM ingest_session WHERE cell = %(cell)s AND day = %(day)s)
"""
_DELETE_PARTS_OF_SESSIONS = [
    f"DELETE FROM {table} WHERE cell = %(cell)s AND {_OF_EXPIRED_SESSIONS}"  # noqa: S608 - constants
    for table in (
        "ingest_trace",
        "ingest_spansession",
        "ingest_usage",
        "ingest_label",
    )
]
_DELETE_ROWS_OF_DAY = [
    "DELETE FROM ingest_search WHERE cell = %(cell)s AND session_day = %(day)s",
    "DELETE FROM ingest_span WHERE cell = %(cell)s AND session_day = %(day)s",
]
_DELETE_SESSIONS = "DELETE FROM ingest_session WHERE cell = %(cell)s AND day = %(day)s"


@dataclass(slots=True)
class Report:
    """Changes that a run made, or would make in a preview."""

    created_days: list[date] = field(default_factory=list)
    dropped_days: list[date] = field(default_factory=list)
    reduced_days: list[date] = field(default_factory=list)
    session_count: int = 0
    transcript_count: int = 0
    problem: str = ""
    """Why nothing was deleted, if the clock was not plausible."""


@dataclass(frozen=True, slots=True)
class _ExpiredDay:
    """The projects whose sessions of a day are past retention. `is_last` means that no other project has any."""

    day: date
    session_counts: Mapping[int, int]
    is_last: bool


def run(*, clocks: Clocks | None = None) -> Report:
    """Create missing partitions, mark what is past retention, and delete what has been marked for a day.

    Several processes may call it at once. One of them deletes, the others return.
    """
    clocks = clocks or retention_clock.read_clocks()
    report = Report()
    existing_days = _existing_days()
    # The commits of this process need the partition of its own day, whatever retention thinks of its clock.
    for day in _missing_days(clocks, existing_days):
        report.created_days.append(day)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(partitions.create_statement(day))
    with transaction.atomic(), connection.cursor() as cursor:
        if not try_lock(cursor, _JOB):
            return report
        reading = retention_clock.advance(clocks)
        report.problem = reading.problem
        if reading.problem:
            return report
        due = retention_clock.update_marks(reading, _has_expired_data)
    for day in sorted(day for day in existing_days if day < reading.today):
        with transaction.atomic(), connection.cursor() as cursor:
            if not try_lock(cursor, _JOB):
                return report
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
            expired = _find_expired(day, _still_due(due, reading.today))
            if expired is not None:
                _delete_day(cursor, expired)
                _add_to_report(report, expired)
    _delete_texts_and_figures(due, reading.today)
    report.transcript_count = sum(transcripts.expire(_still_due(due, reading.today)).values())
    retention_clock.remove_marks(due)
    return report


def preview(*, clocks: Clocks | None = None) -> Report:
    """Return the changes of a run if the grace of everything past retention were over."""
    clocks = clocks or retention_clock.read_clocks()
    reading = retention_clock.read(clocks)
    existing_days = _existing_days()
    report = Report(created_days=_missing_days(clocks, existing_days), problem=reading.problem)
    cutoffs = retention_clock.first_days_to_keep(reading.today)
    for day in sorted(day for day in existing_days if day < reading.today):
        expired = _find_expired(day, cutoffs)
        if expired is not None:
            _add_to_report(report, expired)
    report.transcript_count = sum(transcripts.count_expired(cutoffs).values())
    return report


def _existing_days() -> set[date]:
    with connection.cursor() as cursor:
        cursor.execute(partitions.LIST_PARTITIONS)
        return {partitions.partition_day(name) for (name,) in cursor.fetchall()}


def _missing_days(clocks: Clocks, existing_days: set[date]) -> list[date]:
    return [day for day in partitions.upcoming_days(clocks.own.date()) if day not in existing_days]


def _has_expired_data(project_id: int, cutoff: date) -> bool:
    moment, cells = _start_of(cutoff), cells_of(project_id)
    return (
        Session.objects.filter(cell__in=cells, day__lt=cutoff).exists()
        or Message.objects.filter(cell__in=cells, day__lt=cutoff).exists()
        or Transcript.objects.filter(cell__in=cells, received_at__lt=moment).exists()
        or any(table.objects.filter(cell__in=cells, hour__lt=moment).exists() for table in _HOURLY_TABLES)
    )


def _still_due(due: Mapping[int, date], today: date) -> dict[int, date]:
    """Return the cutoffs of projects that are not under legal hold by now, and have no longer retention."""
    wanted = retention_clock.first_days_to_keep(today)
    return {project_id: min(cutoff, wanted[project_id]) for project_id, cutoff in due.items() if project_id in wanted}


def _find_expired(day: date, cutoffs: Mapping[int, date]) -> _ExpiredDay | None:
    """Return the projects that no longer keep the sessions of `day`, including projects that were deleted."""
    stored = Session.objects.filter(cell__in=sequence.stored_cells(), day=day).values("cell").annotate(n=Count("*"))
    counts: Counter[int] = Counter()
    for cell, count in stored.values_list("cell", "n"):
        counts[project_of(cell)] += count
    project_ids = counts.keys()
    existing_ids = set(Project.objects.values_list("pk", flat=True))
    expired_ids = {pk for pk in project_ids if pk not in existing_ids or day < cutoffs.get(pk, date.min)}
    if project_ids and not expired_ids:
        return None
    return _ExpiredDay(day, {pk: counts[pk] for pk in sorted(expired_ids)}, is_last=expired_ids == project_ids)


def _delete_day(cursor: CursorWrapper, expired: _ExpiredDay) -> None:
    day = expired.day
    # A deleted project is not known to have several cells.
    cells = [cell for cell in sequence.stored_cells() if project_of(cell) in expired.session_counts]
    for cell in cells:
        sequence.lock(cursor, cell)
    # The rows of the last projects go with the partition.
    rows = [] if expired.is_last else _DELETE_ROWS_OF_DAY
    for cell in cells:
        sessions = Session.objects.filter(cell=cell, day=day)
        expiring.send(sender=None, cell=cell, session_keys=sessions.values("session_key"))
        for statement in (*_DELETE_PARTS_OF_SESSIONS, *rows, _DELETE_SESSIONS):
            cursor.execute(statement, {"cell": cell, "day": day})
    if expired.is_last:
        cursor.execute(f"DROP TABLE {partitions.partition_name(day)}")
        cursor.execute(f"DROP TABLE IF EXISTS {partitions.search_partition_name(day)}")
    for project_id, count in expired.session_counts.items():
        _report_deletion(project_id, f"sessions of {day}", {"sessions": count})


def _add_to_report(report: Report, expired: _ExpiredDay) -> None:
    (report.dropped_days if expired.is_last else report.reduced_days).append(expired.day)
    report.session_count += sum(expired.session_counts.values())


def _delete_texts_and_figures(due: Mapping[int, date], today: date) -> None:
    """Delete message texts that no session within retention refers to, and hourly figures from before it."""
    for project_id in due:
        with transaction.atomic(), connection.cursor() as cursor:
            cutoff = _still_due(due, today).get(project_id)
            if cutoff is None:
                continue
            cursor.execute(messages.EXPIRE, [cells_of(project_id), cutoff])
            counts = {"texts": cursor.rowcount}
            old = {"cell__in": cells_of(project_id), "hour__lt": _start_of(cutoff)}
            counts["hourly_figures"] = sum(table.objects.filter(**old).delete()[0] for table in _HOURLY_TABLES)
            _report_deletion(project_id, f"texts and figures before {cutoff}", counts)
    existing_ids = set(Project.objects.values_list("pk", flat=True))
    ownerless = [cell for cell in sequence.stored_cells() if project_of(cell) not in existing_ids]
    for table in (Message, *_HOURLY_TABLES):
        table.objects.filter(cell__in=ownerless).delete()


def _report_deletion(project_id: int, target: str, counts: Mapping[str, int]) -> None:
    """Write the line and the audit entry of a deletion, in its transaction."""
    if not any(counts.values()):
        return
    deleted.send(sender=None, project_id=project_id, target=target, counts=counts)
    for what, count in counts.items():
        metrics.retention_deleted.labels(what).inc(count)
    figures = " ".join(f"{what}={count}" for what, count in counts.items())
    logger.warning("retention_deleted project=%d target=%r %s", project_id, target, figures)


def _start_of(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time(), UTC)
