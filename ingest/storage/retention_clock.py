"""The time by which retention deletes, and what it has marked for deletion.

A wrong clock must not delete anything. The clock of this process and that of Postgres must agree, and both must be
plausible after the last run, or after the newest data if there was no run yet. Otherwise nothing is deleted until the
clock is right again or an administrator accepts it with `manage.py partitions --accept-clock`.

Data is marked a day before it is deleted. The day is counted in time between runs, and an absence counts only as much
as its first hours, so that a jump of the clock cannot end it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db import connection, transaction
from django.dispatch import Signal

from ingest import metrics
from ingest.cells import learn
from ingest.clock_tolerance import MAX_SKEW
from ingest.models import Project, RetentionClock, RetentionMark

logger = logging.getLogger("ariadne.ingest")

GRACE = timedelta(days=1)
# A server may be stopped for a week without asking anyone whether its clock is right.
MAX_JUMP = timedelta(days=7)
# Of the time between two runs, this much counts as grace. Web processes run every hour.
MAX_STEP = timedelta(hours=6)
ACCEPT = 'If the clock is right, run: manage.py partitions --accept-clock "REASON"'

# The newest session of each cell is the first one in the index.
_NEWEST_DAY = """
SELECT max(newest.day) FROM ingest_cell c CROSS JOIN LATERAL (
  SELECT day FROM ingest_session WHERE cell = c.cell ORDER BY day DESC LIMIT 1) newest
"""

accepted = Signal()
"""Sent after an administrator accepted the clock, with `problem` and `reason`. The audit log listens to it."""


class ImplausibleClock(Exception):
    """The clocks cannot be accepted because they contradict each other."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The time of this process and of Postgres."""

    own: datetime
    database: datetime

    @property
    def earliest(self) -> datetime:
        return min(self.own, self.database)


@dataclass(frozen=True, slots=True)
class Reading:
    """The time by which to delete, the seconds of grace counted so far, and why nothing may be deleted, if so."""

    at: datetime
    waited_s: int
    problem: str

    @property
    def today(self) -> date:
        return self.at.date()


def read_clocks() -> Clocks:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (database,) = cursor.fetchone() or (None,)
    assert isinstance(database, datetime)
    return Clocks(datetime.now(UTC), database)


def read(clocks: Clocks) -> Reading:
    """Compare the clocks with each other and with the last run."""
    last = RetentionClock.objects.first()
    since = last.checked_at if last else None
    problem = find_problem(clocks, since, None if since else _newest_day())
    step = timedelta() if problem or since is None else min(max(clocks.earliest - since, timedelta()), MAX_STEP)
    return Reading(clocks.earliest, (last.waited_s if last else 0) + int(step.total_seconds()), problem)


def advance(clocks: Clocks) -> Reading:
    """Read the clocks and remember this run. Log the start and the end of a refusal."""
    reading = read(clocks)
    known = known_problem()
    if reading.problem:
        metrics.retention_refusals.inc()
        RetentionClock.objects.update_or_create(
            create_defaults={"checked_at": _newest_time() or reading.at, "problem": reading.problem},
            defaults={"problem": reading.problem},
        )
        if not known:
            logger.warning("retention_refused: %s", reading.problem)
        return reading
    values = {"checked_at": reading.at, "waited_s": reading.waited_s, "problem": ""}
    RetentionClock.objects.update_or_create(defaults=values)
    if known:
        logger.warning("retention_resumed: the clock is plausible again")
    return reading


def find_problem(clocks: Clocks, last_run: datetime | None, newest_day: date | None) -> str:
    """Return why nothing may be deleted by these clocks, with what to do about it."""
    skew = abs(clocks.own - clocks.database)
    if skew > MAX_SKEW:
        return (
            f"The clock of this process ({_text(clocks.own)}) and that of Postgres ({_text(clocks.database)}) differ by"
            f" {_length(skew)}, so retention deletes nothing. Set the clocks right."
        )
    now = clocks.earliest
    if last_run is None:
        if newest_day is not None and now.date() - newest_day > MAX_JUMP:
            return (
                f"The clock says {_text(now)}, but the newest session is from {newest_day}. Retention deletes nothing"
                f" until the clock is set right. {ACCEPT}"
            )
        return ""
    if now - last_run > MAX_JUMP:
        return (
            f"The clock says {_text(now)}, {_length(now - last_run)} after retention last ran ({_text(last_run)})."
            f" Retention deletes nothing until the clock is set right. {ACCEPT}"
        )
    if last_run - now > MAX_SKEW:
        return (
            f"The clock says {_text(now)}, {_length(last_run - now)} before retention last ran ({_text(last_run)})."
            f" Retention deletes nothing until the clock is set right. {ACCEPT}"
        )
    return ""


def accept(clocks: Clocks, reason: str) -> None:
    """Accept a clock that was refused, for example after the server was stopped for a long time."""
    if abs(clocks.own - clocks.database) > MAX_SKEW:
        raise ImplausibleClock(find_problem(clocks, None, None))
    with transaction.atomic():
        problem = known_problem()
        RetentionClock.objects.update_or_create(defaults={"checked_at": clocks.earliest, "problem": ""})
        accepted.send(sender=None, problem=problem, reason=reason)
    logger.warning("retention_clock_accepted at=%s", _text(clocks.earliest))


def known_problem() -> str:
    """Return why the last run deleted nothing, or an empty text."""
    return RetentionClock.objects.values_list("problem", flat=True).first() or ""


def update_marks(reading: Reading, has_expired: Callable[[int, date], bool]) -> dict[int, date]:
    """Mark what is past retention, and return the marks whose grace is over: the first day to keep, by project.

    `has_expired` returns True if a project has data from before a day. A mark is removed if it no longer applies.
    """
    wanted = first_days_to_keep(reading.today)
    marks = {mark.project_id: mark for mark in RetentionMark.objects.all()}
    for project_id, mark in marks.items():
        if mark.cutoff > wanted.get(project_id, date.min):
            mark.delete()
            logger.warning("retention_unmarked project=%d before=%s", project_id, mark.cutoff)
    for project_id, cutoff in wanted.items():
        if project_id not in marks and has_expired(project_id, cutoff):
            RetentionMark.objects.create(
                project_id=project_id, cutoff=cutoff, marked_at=reading.at, waited_s=reading.waited_s
            )
            logger.warning("retention_marked project=%d before=%s grace_h=24", project_id, cutoff)
    grace_s = GRACE.total_seconds()
    remaining = RetentionMark.objects.filter(project_id__in=wanted)
    return {mark.project_id: mark.cutoff for mark in remaining if reading.waited_s - mark.waited_s >= grace_s}


def remove_marks(due: Mapping[int, date]) -> None:
    RetentionMark.objects.filter(project_id__in=due).delete()


def first_days_to_keep(today: date) -> dict[int, date]:
    """Return the first day within retention, by project. Projects that keep everything are left out."""
    projects = list(Project.objects.filter(legal_hold=False, retention_days__isnull=False))
    learn((project.pk, project.cell_count) for project in projects)
    return {project.pk: today - timedelta(days=project.retention_days or 0) for project in projects}


def _newest_day() -> date | None:
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST_DAY)
        (newest,) = cursor.fetchone() or (None,)
    return newest


def _newest_time() -> datetime | None:
    day = _newest_day()
    return datetime.combine(day, datetime.min.time(), UTC) if day else None


def _text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _length(length: timedelta) -> str:
    return f"{length.days} days" if length.days > 1 else f"{length.total_seconds() / 3600:.1f} hours"
