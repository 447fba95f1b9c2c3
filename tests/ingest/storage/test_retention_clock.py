"""Retention deletes nothing by a clock that is not plausible, and nothing that it has not marked for a day."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, time, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from prometheus_client import REGISTRY
from retention_runs import clocks_at, expire, mark

from ingest.cells import cells_of
from ingest.models import Message, Project, RetentionClock, RetentionMark, Trend
from ingest.storage import retention, retention_clock
from ingest.storage.retention_clock import Clocks
from tests.ingest.storage.test_retention import project, session, spans
from viewer.models import AuditEntry

NOON = datetime.combine(datetime.now(UTC).date(), time(12), UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)

pytestmark = pytest.mark.django_db


def run(moment: datetime) -> retention.Report:
    return retention.run(clocks=clocks_at(moment))


def refusals() -> float:
    return REGISTRY.get_sample_value("ariadne_retention_refusals_total") or 0.0


@pytest.fixture
def two_projects() -> tuple[Project, Project]:
    return project("short", retention_days=30), project("long", retention_days=365)


@pytest.mark.parametrize("had_runs", [True, False])
def test_a_clock_that_is_far_ahead_deletes_nothing(
    two_projects: tuple[Project, Project], had_runs: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither on a running server nor with the first run after a start. One line says so, until it is right again."""
    keys = [session(owner, 0) for owner in two_projects]
    if had_runs:
        run(NOON)
    before = refusals()
    with caplog.at_level(logging.WARNING, "ariadne.ingest"):
        for hour in range(48):
            report = run(NOON + 400 * DAY + hour * HOUR)
            assert "2027" in report.problem or "2028" in report.problem
            assert "--accept-clock" in report.problem
    assert [spans(key) for key in keys] == [1, 1]
    assert (RetentionMark.objects.count(), AuditEntry.objects.count()) == (0, 0)
    assert refusals() - before == 48
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["retention_refused"]
    assert retention_clock.known_problem()
    assert run(NOON + HOUR).problem == retention_clock.known_problem() == ""
    assert caplog.records[-1].getMessage().startswith("retention_resumed")


def test_new_data_by_the_wrong_clock_does_not_confirm_it(two_projects: tuple[Project, Project]) -> None:
    """Events that arrive while the clock is wrong have its day."""
    key = session(two_projects[0], 0)
    run(NOON)
    ahead = session(two_projects[0], -400)
    for hour in range(30):
        assert run(NOON + 400 * DAY + hour * HOUR).problem
    assert (spans(key), spans(ahead)) == (1, 1)


@pytest.mark.parametrize("ahead", [timedelta(days=400), timedelta(days=-400), timedelta(hours=2)])
def test_the_clock_of_postgres_must_agree(two_projects: tuple[Project, Project], ahead: timedelta) -> None:
    """Whichever of them is wrong."""
    key = session(two_projects[0], 31)
    deletes_at = mark(NOON)
    report = retention.run(clocks=Clocks(deletes_at + ahead, deletes_at))
    assert "Postgres" in report.problem
    assert spans(key) == 1
    with pytest.raises(retention_clock.ImplausibleClock, match="differ by"):
        retention_clock.accept(Clocks(deletes_at + ahead, deletes_at), "x")
    run(deletes_at)
    assert spans(key) == 0


def test_small_jumps_do_not_end_the_grace(two_projects: tuple[Project, Project]) -> None:
    """A jump that is plausible may mark too much, but what it marked stays until the clock is right."""
    key = session(two_projects[0], 28)
    RetentionClock.objects.create(checked_at=NOON)
    run(NOON)
    run(NOON + 6 * DAY)
    assert RetentionMark.objects.count() == 1
    for hour in range(1, 24):
        run(NOON + 6 * DAY + hour * HOUR)
    assert "before retention last ran" in run(NOON + 30 * HOUR).problem
    retention_clock.accept(clocks_at(NOON + 30 * HOUR), "The time server was wrong")
    run(NOON + 31 * HOUR)
    assert (RetentionMark.objects.count(), spans(key)) == (0, 1)


def test_data_is_deleted_a_day_after_it_was_marked(
    two_projects: tuple[Project, Project], caplog: pytest.LogCaptureFixture
) -> None:
    """With a line in the log and an audit entry for each deletion. The other project keeps its data."""
    short, long = two_projects
    old, kept = session(short, 31), session(long, 31)
    last_week = NOON - 40 * DAY
    for owner in two_projects:
        Message.objects.create(cell=cells_of(owner.pk)[0], hash=b"h" * 32, day=last_week.date(), size=1, body=b"x")
        Trend.objects.create(cell=cells_of(owner.pk)[0], hour=last_week, model="m")
    with caplog.at_level(logging.WARNING, "ariadne.ingest"):
        deletes_at = mark(NOON)
        assert [spans(old), spans(kept)] == [1, 1]
        assert str(RetentionMark.objects.get()) == f"project {short.pk} before {NOON.date() - 30 * DAY}"
        run(deletes_at)
    assert [spans(old), spans(kept)] == [0, 1]
    assert list(Message.objects.values_list("cell", flat=True)) == cells_of(long.pk)
    assert [trend.project_id for trend in Trend.objects.all()] == [long.pk]
    assert RetentionMark.objects.count() == 0
    entries = AuditEntry.objects.order_by("position")
    assert [(e.action, e.project_id, e.actor, e.reason) for e in entries] == [
        ("data.delete", short.pk, "retention", "older than 30 days")
    ] * 2
    assert [e.detail for e in entries] == [{"sessions": 1}, {"texts": 1, "hourly_figures": 1}]
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(" target")[0] for line in lines] == [
        f"retention_marked project={short.pk} before={NOON.date() - 30 * DAY} grace_h=24",
        f"retention_deleted project={short.pk}",
        f"retention_deleted project={short.pk}",
    ]


@pytest.mark.parametrize("change", [{"legal_hold": True}, {"retention_days": 90}, {"retention_days": None}])
def test_a_mark_is_removed_within_the_grace(two_projects: tuple[Project, Project], change: dict[str, object]) -> None:
    """By a legal hold and by a longer retention."""
    key = session(two_projects[0], 31)
    deletes_at = mark(NOON)
    Project.objects.filter(pk=two_projects[0].pk).update(**change)
    run(deletes_at)
    assert (RetentionMark.objects.count(), spans(key)) == (0, 1)


def test_a_long_absence_needs_a_person(two_projects: tuple[Project, Project]) -> None:
    """The acceptance is in the audit log with its reason. Data is deleted a day later."""
    key, now = session(two_projects[0], 31), datetime.now(UTC)
    RetentionClock.objects.create(checked_at=now - 60 * DAY)
    out = StringIO()
    call_command("partitions", stdout=out)
    assert "0 sessions and 0 transcripts deleted" in out.getvalue() and "60 days after" in out.getvalue()
    with pytest.raises(CommandError, match="Enter a reason"):
        call_command("partitions", accept_clock=" ")
    call_command("partitions", accept_clock="Stopped for the holidays", stdout=out)
    entry = AuditEntry.objects.latest("position")
    assert (entry.action, entry.reason) == ("clock.accept", "Stopped for the holidays")
    assert "60 days after" in entry.detail["problem"]
    run(now + HOUR)
    assert spans(key) == 1
    expire(now + 2 * HOUR)
    assert spans(key) == 0
