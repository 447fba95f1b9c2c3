"""Views of content: one audit entry per person, session and hour, and a reason where the project demands one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from people import client_for, create_project, create_session, create_user

from ingest.models import Project, Span
from viewer.accounts import api_tokens
from viewer.accounts.access import Right
from viewer.audit import payload_views
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db
TEXT = "the text that agents sent"
SPAN = "t-run:a"


@pytest.fixture
def ours() -> Project:
    project = create_project("ours")
    create_session(project, session_id="run", text=TEXT)
    create_session(project, session_id="other-run", text=TEXT)
    return project


@pytest.fixture
def strict(ours: Project) -> Project:
    ours.requires_view_reason = True
    ours.save()
    return ours


def views() -> list[tuple[str, str, str]]:
    entries = AuditEntry.objects.filter(action="payload.view").order_by("position")
    return [(entry.actor, entry.target, entry.reason) for entry in entries]


def test_a_view_is_logged_once_per_person_and_session(ours: Project):
    ann, bob = (client_for(create_user("developer", ours, name=name)) for name in ("ann", "bob"))
    for client in (ann, ann, bob):
        assert TEXT in client.get(f"/api/spans/{SPAN}/").content.decode()
        assert TEXT in client.get("/sessions/run/payload/", {"span": SPAN}).content.decode()
    ann.get("/api/spans/t-other-run:a/")
    assert views() == [("ann", "run", ""), ("bob", "run", ""), ("ann", "other-run", "")]
    entry = AuditEntry.objects.filter(action="payload.view").earliest("position")
    assert (entry.detail["session"], entry.detail["first"]) == ("run", SPAN)


def test_a_recorded_view_does_not_wait_for_writers_of_the_log(ours: Project) -> None:
    client = client_for(create_user("developer", ours, name="ann"))
    locks = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            assert TEXT in client.get(f"/api/spans/{SPAN}/").content.decode()
        locks.append(any("pg_advisory_xact_lock" in query["sql"] for query in queries.captured_queries))
    assert locks == [True, False]


def test_a_view_is_logged_again_after_an_hour(ours: Project, monkeypatch):
    client = client_for(create_user("developer", ours, name="ann"))
    client.get(f"/api/spans/{SPAN}/")
    monkeypatch.setattr(payload_views, "WINDOW", timedelta(0))
    client.get(f"/api/spans/{SPAN}/")
    assert len(views()) == 2


def test_pages_without_content_are_not_logged(ours: Project):
    """A session page with names and counts, the tree, and a span whose properties are all metadata."""
    Span.objects.filter(session_key__isnull=False).update(payload=None)
    client = client_for(create_user("developer", ours))
    for path in ("/", "/sessions/run/", "/api/sessions/run/tree/", "/api/sessions/run/spans/", f"/api/spans/{SPAN}/"):
        assert client.get(path).status_code == 200
    assert views() == []


def test_an_operators_view_is_not_a_payload_view(ours: Project):
    client = client_for(create_user("operator", ours))
    assert TEXT not in client.get(f"/api/spans/{SPAN}/").content.decode()
    assert views() == []


PATHS = (f"/api/spans/{SPAN}/", "/api/sessions/run/spans/", f"/sessions/run/inspector/?span={SPAN}")


def test_content_is_hidden_until_a_reason_is_given(strict: Project):
    """On every address, for every person with the right. `payload=1` and the payload fragment say what is missing."""
    client = client_for(create_user("developer", strict, name="ann"))
    for path in PATHS:
        assert TEXT not in client.get(path).content.decode()
    refused = client.get(f"/api/spans/{SPAN}/?payload=1")
    assert refused.status_code == 400 and "reason" in refused.json()
    assert client.get("/sessions/run/payload/", {"span": SPAN}).status_code == 400
    assert client.get("/sessions/run/messages/00/").status_code == 400
    assert 'name="reason"' in client.get("/sessions/run/").content.decode()
    assert views() == []


def test_a_reason_opens_one_session_for_one_person(strict: Project):
    ann, bob = (client_for(create_user("developer", strict, name=name)) for name in ("ann", "bob"))
    target = "/sessions/run/?span=t-run:a"
    response = ann.post("/sessions/run/payload/access/", {"reason": "ticket 4711", "next": target})
    assert (response.status_code, response["Location"]) == (302, target)
    assert views() == [("ann", "run", "ticket 4711")]
    assert TEXT in ann.get(f"/api/spans/{SPAN}/").content.decode()
    assert TEXT in ann.get("/sessions/run/payload/", {"span": SPAN}).content.decode()
    assert TEXT not in ann.get("/api/spans/t-other-run:a/").content.decode()
    assert TEXT not in bob.get(f"/api/spans/{SPAN}/").content.decode()
    assert len(views()) == 1


def test_an_empty_reason_opens_nothing(strict: Project):
    client = client_for(create_user("developer", strict))
    page = client.post("/sessions/run/payload/access/", {"reason": "  "}, follow=True).content.decode()
    assert "Enter a reason." in page and views() == []


def test_the_next_page_cannot_be_on_another_site(strict: Project):
    client = client_for(create_user("developer", strict))
    response = client.post("/sessions/run/payload/access/", {"reason": "x", "next": "https://evil.example/"})
    assert response["Location"].startswith("/sessions/")


def test_the_api_takes_the_reason_as_a_parameter(strict: Project):
    """Also with a token. The reason opens the session for an hour."""
    ann = create_user("developer", strict, name="ann")
    _, token = api_tokens.create(ann, label="t", scopes=[Right.SESSIONS, Right.PAYLOAD])
    headers: dict[str, Any] = {"Authorization": f"Bearer {token}"}
    answer = Client().get(f"/api/spans/{SPAN}/", {"payload": 1, "reason": "nightly check"}, headers=headers)
    assert answer.json()["payload"] == {"prompt": TEXT}
    assert Client().get(f"/api/spans/{SPAN}/", {"payload": 1}, headers=headers).status_code == 200
    (entry,) = AuditEntry.objects.filter(action="payload.view")
    assert entry.reason == "nightly check" and entry.actor.startswith("ann (token ")


def test_a_reason_does_not_replace_the_right(strict: Project):
    client = client_for(create_user("operator", strict))
    assert client.post("/sessions/run/payload/access/", {"reason": "curious"}).status_code == 403
    assert TEXT not in client.get(f"/api/spans/{SPAN}/", {"reason": "curious"}).content.decode()
    assert views() == []


def test_the_live_page_of_a_strict_project_shows_metadata_only(strict: Project):
    """It shows all sessions, and a reason is for one."""
    Span.objects.filter(trace_id="t-run").update(name=TEXT)
    client = client_for(create_user("developer", strict, name="ann"))
    assert TEXT not in client.get("/tail/").content.decode()
    strict.requires_view_reason = False
    strict.save()
    for _ in range(2):
        assert TEXT in client.get("/tail/").content.decode()
    assert AuditEntry.objects.filter(action="tail.view", actor="ann").count() == 1


def test_the_setting_is_changed_with_a_reason_and_logged(ours: Project):
    client = client_for(create_user("admin", ours))
    client.post("/projects/ours/keep/", {"reason": "policy", "requires_view_reason": "on"})
    ours.refresh_from_db()
    entry = AuditEntry.objects.filter(action="project.change").latest("position")
    assert ours.requires_view_reason and entry.detail["after"]["requires_view_reason"] is True
