"""The audit log: nothing is lost from it, and whoever touches it is found out."""

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


def three_lines() -> None:
    for number in range(3):
        log.record(ANN, Action.PAYLOAD_VIEW, target=f"span {number}", reason="why", number=number)


@contextmanager
def without_trigger() -> Iterator[None]:
    """What an intruder with the owner's password would do."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE viewer_auditentry DISABLE TRIGGER USER")
        yield
        cursor.execute("ALTER TABLE viewer_auditentry ENABLE TRIGGER USER")


@pytest.mark.req("K-UI-3")
def test_an_untouched_log_has_no_faults():
    """Whatever is written, characters and numbers alike, hashes to the same after a round through Postgres."""
    three_lines()
    log.record(Origin(7, "zoë\n\x00", "::1", "😀"), Action.DENIED, target="GET /\r\nX: y", denied=True, big=2**40)
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
def test_a_line_changed_removed_or_moved_behind_the_triggers_back_is_found(statement: str, problem: str):
    """The chain says where."""
    three_lines()
    with without_trigger(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert any(problem in text for text in log.find_problems())


@pytest.mark.req("K-UI-3")
@pytest.mark.parametrize("verb", ["UPDATE viewer_auditentry SET actor = ''", "DELETE FROM viewer_auditentry"])
def test_the_database_refuses_changes(verb: str):
    """Even an UPDATE that would touch no line."""
    with pytest.raises(DatabaseError, match=r"append-only|permission"), transaction.atomic():
        connection.cursor().execute(verb)
    with pytest.raises(DatabaseError, match=r"append-only|permission"), transaction.atomic():
        connection.cursor().execute("TRUNCATE viewer_auditentry")


def test_auditors_see_their_projects_lines_and_their_peoples_logins():
    """Not another project's, and not the logins of people who share no project with them."""
    ours, theirs = (Project.objects.create(slug=s, name=s) for s in ("ours", "theirs"))
    people = {name: User.objects.create_user(name) for name in ("auditor", "colleague", "stranger")}
    people["auditor"].groups.add(Group.objects.get(name="auditors"))
    for name, project in (("auditor", ours), ("colleague", ours), ("stranger", theirs)):
        Membership.objects.create(user=people[name], project=project)
    for name, user in people.items():
        log.record(Origin(user.pk, name), Action.LOGIN)
    log.record(ANN, Action.TRANSCRIPT_DOWNLOAD, project_id=ours.pk)
    log.record(ANN, Action.TRANSCRIPT_DOWNLOAD, project_id=theirs.pk)
    seen = log.visible_entries(access.user_grant(people["auditor"]))
    assert {(entry.actor, entry.project_id) for entry in seen} == {
        ("auditor", None),
        ("colleague", None),
        ("ann", ours.pk),
    }
    assert not log.visible_entries(access.user_grant(people["colleague"])).exists()


def test_logins_failures_and_logouts_are_written_down(client: Client):
    """With the address they came from."""
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
def test_a_forwarded_address_counts_only_as_far_as_our_proxies_wrote_it(settings, proxies, forwarded, expected):
    """A caller may send any X-Forwarded-For it likes."""
    settings.TRUSTED_PROXIES = proxies
    request = RequestFactory().get("/", REMOTE_ADDR="127.0.0.1", HTTP_X_FORWARDED_FOR=forwarded)
    assert log.request_address(request) == expected
