"""The clock was far ahead for a while, and is right again. Nothing lasts until the time that it showed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from people import add_events, client_for, create_project, create_session, create_transcript, create_user

from ingest.http import keys
from ingest.models import IngestKey, Project, Session
from viewer.accounts import api_tokens
from viewer.accounts.access import Right
from viewer.accounts.identity import Identity
from viewer.alerts import delivery, evaluation
from viewer.audit.anchors import anchor_file, anchor_series
from viewer.models import Alert, AlertRule, AuditEntry
from viewer.search import indexer
from viewer.search import queries as search
from viewer.visibility.public_parts import Visibility

pytestmark = [pytest.mark.django_db, pytest.mark.req("A-FLT-1")]
TEXT = "Planted-Sesame"


class Clock:
    """The clock of the process, which a test can move."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.fixture(params=[timedelta(days=400), timedelta(hours=8)], ids=["400 days", "8 hours"])
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that is ahead until `ahead` is zero. Eight hours are a machine with local time in its hardware clock."""
    clock = Clock()
    clock.ahead = request.param
    monkeypatch.setattr(timezone, "now", clock.now)
    return clock


@pytest.fixture
def ours(settings: Any, tmp_path: Path) -> Project:
    settings.DATA_DIR = tmp_path
    project = create_project("ours")
    create_session(project, session_id="run", text=TEXT)
    return project


def test_a_login_lasts_no_longer_than_any_other(ours: Project, clock: Clock, settings: Any) -> None:
    """On pages and websockets."""
    settings.SESSION_COOKIE_AGE = 3600
    client = client_for(create_user("developer", ours))
    login = client.session.session_key
    assert client.get("/sessions/run/").status_code == 200
    assert Identity(login_key=login).grant().projects(Right.SESSIONS)
    clock.ahead = timedelta()
    assert client.get("/sessions/run/").status_code == 302
    assert not Identity(login_key=login).grant().projects(Right.SESSIONS)


def test_a_revoked_secret_stays_revoked(ours: Project, clock: Clock) -> None:
    """A revoked ingest key and a revoked API token."""
    key = keys.create(ours, label="agent")
    other_key = keys.create(create_project("theirs"), label="agent")
    keys.revoke(IngestKey.objects.get(project=ours))
    token, text = api_tokens.create(create_user("developer", ours), label="ci", scopes=[Right.SESSIONS])
    api_tokens.revoke(token)
    clock.ahead = timedelta()
    assert not keys.is_valid(key, ours)
    assert keys.is_valid(other_key, Project.objects.get(slug="theirs"))
    assert api_tokens.check(text) is None


def test_views_of_content_are_logged_and_need_a_reason(ours: Project, clock: Clock) -> None:
    Project.objects.update(requires_view_reason=True)
    developer = create_user("developer", ours)
    client = client_for(developer)
    address = "/api/spans/t-run:a/"
    assert TEXT in client.get(address, {"reason": "ticket 1"}).content.decode()
    clock.ahead = timedelta()
    client.force_login(developer)
    assert TEXT not in client.get(address).content.decode()
    assert TEXT in client.get(address, {"reason": "ticket 2"}).content.decode()
    views = AuditEntry.objects.filter(action="payload.view").order_by("position")
    assert [entry.reason for entry in views] == ["ticket 1", "ticket 2"]


def test_new_entries_are_anchored(ours: Project, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each change, and everything verifies."""
    interval = timedelta(minutes=10)
    monkeypatch.setattr(anchor_series, "anchor_time", lambda _cursor: clock.now())
    create_transcript(ours)
    assert anchor_series.write_if_due(interval) is not None
    monkeypatch.undo()
    assert anchor_series.write_if_due(interval) is None
    create_transcript(ours, step=2)
    assert anchor_series.write_if_due(interval) is not None
    assert anchor_series.write_if_due(interval) is None
    assert anchor_series.verify().problems == []
    assert len(anchor_file.read()[0]) == 2


def test_alerts_fire_and_are_delivered(ours: Project, clock: Clock) -> None:
    """After an evaluation, an alert and a claimed delivery by the wrong clock."""
    owner, session = create_user("developer", ours), Session.objects.get()
    rule = AlertRule.objects.create(
        project=ours, name="fallbacks", kind=AlertRule.Kind.FALLBACK, threshold=1, created_by=owner,
        cooldown_minutes=60, emails=["ann@example.com"],
    )  # fmt: skip
    evaluation.start_project(ours.pk)
    for _ in range(2):
        session.refresh_from_db()
        session.last_seq += 1
        session.save(update_fields=["last_seq"])
        add_events(
            session, {"compact.error": ({"error_type": "TimeoutError", "fallback": "x"}, {})}, seq=session.last_seq
        )
        assert evaluation.evaluate_all(min_age=timedelta(seconds=30)) == 1
        clock.ahead = timedelta()
    assert Alert.objects.filter(rule=rule).count() == 2
    assert delivery.deliver_due() == 2


def test_silence_is_noticed(ours: Project, clock: Clock) -> None:
    """A key that was last used in the future, and a rule that fired then."""
    AlertRule.objects.create(
        project=ours, name="silence", kind=AlertRule.Kind.SILENCE, threshold=5,
        created_by=create_user("developer", ours), last_fired_at=clock.now(),
    )  # fmt: skip
    keys.create(ours, label="agent")
    IngestKey.objects.update(last_used_at=clock.now())
    evaluation.start_project(ours.pk)
    clock.ahead = timedelta()
    now = clock.now()
    assert evaluation.evaluate_project(ours.pk, now=now) == 0
    assert evaluation.evaluate_project(ours.pk, now=now + timedelta(minutes=6)) == 1


def test_the_last_use_of_a_token_is_corrected(ours: Project, clock: Clock) -> None:
    token, text = api_tokens.create(create_user("developer", ours), label="ci", scopes=[Right.SESSIONS])
    assert api_tokens.check(text) is not None
    clock.ahead = timedelta()
    assert api_tokens.check(text) is not None
    token.refresh_from_db()
    assert token.last_used_at is not None and token.last_used_at <= clock.now()


def test_sessions_of_that_time_are_found(clock: Clock, ours: Project) -> None:
    indexer.catch_up(ours.pk)
    clock.ahead = timedelta()
    page = search.search({ours.pk: Visibility.CONTENT}, TEXT)
    assert [result.type for result in page.results]
