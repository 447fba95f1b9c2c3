"""The audit log is append-only, and modifications are detected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import Group, User
from django.db import DatabaseError, connection, transaction
from django.test import Client, RequestFactory

from ingest.models import Project
from viewer.accounts import access
from viewer.audit import log
from viewer.audit.log import Action, Origin
from viewer.models import AuditEntry, Membership

pytestmark = pytest.mark.django_db

ANN = Origin(None, "ann", "192.0.2.1", "test")


def record_three() -> None:
    for number in range(3):
        log.record(ANN, Action.PAYLOAD_VIEW, target=f"span {number}", reason="why", number=number)


@contextmanager
def without_trigger() -> Iterator[None]:
    """Disable the trigger, as an attacker with the database password could."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE viewer_auditentry DISABLE TRIGGER USER")
        yield
        cursor.execute("ALTER TABLE viewer_auditentry ENABLE TRIGGER USER")


@pytest.mark.req("K-UI-3")
def test_an_unmodified_log_has_no_problems():
    """Any text and number hashes to the same value after it was stored in Postgres."""
    record_three()
    log.record(
        Origin(7, "zoë\n\x00", "::1", "😀"),
        Action.DENIED,
        target="GET /\r\nX: y",
        outcome=AuditEntry.Outcome.DENIED,
        big=2**40,
    )
    assert log.find_problems() == []
    last = AuditEntry.objects.latest("position")
    assert "\n" not in last.actor + last.target and "\x00" not in last.actor


@pytest.mark.req("K-UI-3")
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE viewer_auditentry SET actor = 'bob' WHERE target = 'span 1'", "was modified"),
        ("UPDATE viewer_auditentry SET outcome = 'denied' WHERE target = 'span 1'", "was modified"),
        ("DELETE FROM viewer_auditentry WHERE target = 'span 1'", "missing"),
        (
            "UPDATE viewer_auditentry SET target = CASE target WHEN 'span 0' THEN 'span 1' WHEN 'span 1' THEN 'span 0'"
            " ELSE target END",
            "was modified",
        ),
    ],
)
def test_a_modification_without_the_trigger_is_detected(statement: str, problem: str):
    record_three()
    with without_trigger(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert any(problem in text for text in log.find_problems())


@pytest.mark.req("K-UI-3")
@pytest.mark.parametrize("statement", ["UPDATE viewer_auditentry SET actor = ''", "DELETE FROM viewer_auditentry"])
def test_the_database_rejects_modifications(statement: str):
    """This includes an UPDATE that matches no row."""
    with pytest.raises(DatabaseError, match=r"append-only|permission"), transaction.atomic():
        connection.cursor().execute(statement)
    with pytest.raises(DatabaseError, match=r"append-only|permission"), transaction.atomic():
        connection.cursor().execute("TRUNCATE viewer_auditentry")


def test_auditors_see_entries_of_their_projects_and_logins_of_their_members():
    """They do not see entries of other projects, or logins of users in other projects."""
    ours, theirs = (Project.objects.create(slug=s, name=s) for s in ("ours", "theirs"))
    users = {name: User.objects.create_user(name) for name in ("auditor", "colleague", "stranger")}
    users["auditor"].groups.add(Group.objects.get(name="auditors"))
    for name, project in (("auditor", ours), ("colleague", ours), ("stranger", theirs)):
        Membership.objects.create(user=users[name], project=project)
    for name, user in users.items():
        log.record(Origin(user.pk, name), Action.LOGIN)
    log.record(ANN, Action.TRANSCRIPT_DOWNLOAD, project_id=ours.pk)
    log.record(ANN, Action.TRANSCRIPT_DOWNLOAD, project_id=theirs.pk)
    seen = log.visible_entries(access.user_grant(users["auditor"]))
    assert {(entry.actor, entry.project_id) for entry in seen} == {
        ("auditor", None),
        ("colleague", None),
        ("ann", ours.pk),
    }
    assert not log.visible_entries(access.user_grant(users["colleague"])).exists()


def test_logins_failures_and_logouts_are_logged(client: Client):
    """The entries have the client's address."""
    User.objects.create_user("ann", password="right horse")
    before = AuditEntry.objects.count()
    client.post("/admin/login/", {"username": "ann", "password": "wrong"}, REMOTE_ADDR="192.0.2.9")
    client.force_login(User.objects.get(username="ann"))
    client.logout()
    new = AuditEntry.objects.order_by("position")[before:]
    assert [(entry.action, entry.actor) for entry in new] == [
        ("login.failed", "ann"),
        ("login", "ann"),
        ("logout", "ann"),
    ]
    assert new[0].address == "192.0.2.9"


@pytest.mark.parametrize(
    ("proxies", "forwarded", "expected"),
    [
        (0, "6.6.6.6", "127.0.0.1"),
        (1, "6.6.6.6, 203.0.113.5", "203.0.113.5"),
        (1, "", "127.0.0.1"),
        (2, "6.6.6.6, 203.0.113.5, 10.0.0.1", "203.0.113.5"),
        (2, "10.0.0.1", "127.0.0.1"),
    ],
)
def test_a_forwarded_address_counts_only_if_a_trusted_proxy_added_it(settings, proxies, forwarded, expected):
    """Clients can send any X-Forwarded-For header."""
    settings.TRUSTED_PROXIES = proxies
    request = RequestFactory().get("/", REMOTE_ADDR="127.0.0.1", HTTP_X_FORWARDED_FOR=forwarded)
    assert log.client_address(request.META) == expected
