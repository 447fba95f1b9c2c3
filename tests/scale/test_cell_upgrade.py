"""The upgrade to tables that are keyed by cell. Nothing of a filled database is lost or moved to another project."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import zstandard
from django.core.management import call_command
from django.db import connection, transaction
from scale.plans import database, migrate_to

from ingest.archive import transcripts, verification
from ingest.archive.hash_chain import Link, canonical, format_time
from ingest.cells import cells_of
from ingest.models import ChainLink, Content, Message, Transcript, session_key
from ingest.storage import messages
from viewer.audit import log
from viewer.models import Alert, AlertDelivery, AuditEntry, Bookmark, Comment, Mention

BEFORE = {"ingest": "0020_packed_data", "viewer": "0007_drop_compaction_parts"}
OURS, THEIRS = 1, 2
AT = datetime(2026, 11, 1, 9, tzinfo=UTC)
TEXTS = {OURS: ["Shared text", "Ours alone"], THEIRS: ["Shared text", "Planted-Sesame"]}


def insert(client: psycopg.Connection[Any], table: str, **values: Any) -> None:
    columns, places = ", ".join(values), ", ".join(["%s"] * len(values))
    encoded = [json.dumps(value) if isinstance(value, dict) else value for value in values.values()]
    client.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", encoded)  # type: ignore[arg-type]


def bodies(project_id: int) -> dict[bytes, bytes]:
    texts = [canonical({"role": "user", "content": text}) for text in TEXTS[project_id]]
    return {hashlib.sha256(text).digest(): text for text in texts}


def fill_archive(client: psycopg.Connection[Any], project_id: int) -> None:
    """Store messages of spans, and a session with two transcripts, of which the first was deleted."""
    for digest, text in bodies(project_id).items():
        stored = {"hash": digest, "project_id": project_id, "size": len(text), "body": zstandard.compress(text)}
        insert(client, "ingest_message", **stored, day=AT.date())
        insert(client, "ingest_content", **stored, created_at=AT)
    key, previous = session_key(project_id, "same"), ""
    lines = b"".join(text + b"\n" for text in bodies(project_id).values())
    digest = hashlib.sha256(lines).hexdigest()
    for position, (kind, step) in enumerate((("stored", 1), ("stored", 2), ("deleted", 1))):
        manifest = {"messages": 2, "redactions": {}} if kind == "stored" else {"by": "ann", "reason": "old"}
        link = Link(project_id, "same", position, kind, step, format_time(AT), digest, manifest, previous)
        previous = link.hash()
        fields: dict[str, Any] = {"project_id": project_id, "session_id": "same", "session_key": key, "step": step}
        insert(
            client, "ingest_chainlink", **fields, position=position, kind=kind, time=AT, sha256=digest,
            manifest=manifest, previous=link.previous, chain=link.hash(),
        )  # fmt: skip
        if (kind, step) == ("stored", 2):
            insert(
                client, "ingest_transcript", **fields, created_at=AT, received_at=AT, message_count=2, redactions={},
                size=len(lines), sha256=digest, sent_sha256=digest, hashes=b"".join(bodies(project_id)), chain=previous,
            )  # fmt: skip


def fill_comments(client: psycopg.Connection[Any], project_id: int) -> None:
    """Store a member, and two comments on a session with a mention and a bookmark. Then delete the newer comment."""
    names = ("username", "password", "first_name", "last_name", "email")
    texts = dict.fromkeys(names, "") | {"username": f"user-{project_id}"}
    flags = {"is_superuser": False, "is_staff": False, "is_active": True}
    insert(client, "auth_user", id=project_id, **texts, **flags, date_joined=AT)
    target = {"project_id": project_id, "session_key": session_key(project_id, "same"), "created_at": AT}
    for text in (TEXTS[project_id][1], "deleted"):
        insert(client, "viewer_comment", **target, span="", author_id=project_id, text=text)
    ((pk, deleted_pk),) = client.execute("SELECT max(id) - 1, max(id) FROM viewer_comment").fetchall()
    client.execute("DELETE FROM viewer_comment WHERE id = %s", [deleted_pk])
    insert(client, "viewer_mention", comment_id=pk, user_id=project_id, created_at=AT)
    for compaction in (0, 3):
        insert(client, "viewer_bookmark", **target, user_id=project_id, compaction=compaction)


def fill_alerts(client: psycopg.Connection[Any], project_id: int) -> None:
    """Store a rule that fired, with a delivery that is due."""
    rule: dict[str, Any] = {"name": f"rule {project_id}", "kind": "fallback", "threshold": 1, "window_minutes": 60}
    rule |= {"cooldown_minutes": 60, "suppressed_count": 0, "emails": "[]", "matches": "[]", "is_enabled": True}
    texts = ("session_filter", "model_filter", "webhook_url", "webhook_host", "webhook_secret", "problem")
    rule |= dict.fromkeys(texts, "") | {"includes_content": False, "created_at": AT, "project_id": project_id}
    insert(client, "viewer_alertrule", **rule)
    alert = {"is_test": False, "title": TEXTS[project_id][1], "figures": {}, "sessions": "[]", "fired_at": AT}
    ((rule_id,),) = client.execute("SELECT max(id) FROM viewer_alertrule").fetchall()
    insert(client, "viewer_alert", **alert, rule_id=rule_id, project_id=project_id)
    ((alert_id,),) = client.execute("SELECT max(id) FROM viewer_alert").fetchall()
    sent = {"channel": "email", "recipient": f"user-{project_id}@example.com", "state": "pending", "result": ""}
    insert(client, "viewer_alertdelivery", **sent, alert_id=alert_id, attempts=1, next_attempt_at=AT)


def fill_audit_log(client: psycopg.Connection[Any]) -> None:
    """Append an entry of each project, and one without a project."""
    previous = ""
    for position, project_id in enumerate((OURS, THEIRS, None)):
        texts = dict.fromkeys(("actor", "address", "agent", "target", "reason"), f"text {project_id}")
        entry = AuditEntry(
            position=position, at=AT, action="login", outcome="ok", project_id=project_id, detail={"n": position},
            previous=previous, **texts,
        )  # fmt: skip
        previous = log.entry_hash(entry)
        names = ("position", "at", "action", "outcome", "project_id", "detail", "previous", *texts)
        insert(client, "viewer_auditentry", **{name: getattr(entry, name) for name in names}, hash=previous)


@pytest.fixture(scope="module")
def upgraded(postgres: Any, django_db_blocker: Any) -> Iterator[None]:
    """A database that was filled in the state before cells, and migrated since."""
    postgres.create_database("cells")
    with database("cells", str(postgres.socket_dir)), django_db_blocker.unblock():
        migrate_to(BEFORE)
        with psycopg.connect(postgres.dsn("cells")) as client:
            for project_id, slug in ((OURS, "ours"), (THEIRS, "theirs")):
                insert(
                    client, "ingest_project", id=project_id, slug=slug, name=slug, created_at=AT, legal_hold=False
                )  # fmt: skip
                fill_archive(client, project_id)
                fill_comments(client, project_id)
                fill_alerts(client, project_id)
            fill_audit_log(client)
        call_command("migrate", verbosity=0)
        yield
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as client:
        client.execute("DROP DATABASE cells WITH (FORCE)")


@pytest.mark.usefixtures("upgraded")
@pytest.mark.parametrize(("project_id", "other_id"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_the_archive_is_intact(project_id: int, other_id: int) -> None:
    """Chains and texts are verified as before, and each project has its own copy of a shared text."""
    (result,) = verification.verify_all([project_id])
    assert (result.faults, result.stored, result.deleted) == ((), 1, 1)
    assert result.session_key == session_key(project_id, "same")
    (cell,), (other_cell,) = cells_of(project_id), cells_of(other_id)
    (transcript,) = Transcript.objects.filter(cell=cell)
    assert list(transcripts.lines(transcript)) == list(bodies(project_id).values())
    assert ChainLink.objects.filter(cell=cell).count() == 3
    own = {bytes(row.hash) for row in Content.objects.filter(cell=cell)}
    assert own == {bytes(row.hash) for row in Message.objects.filter(cell=cell)} == set(bodies(project_id))
    foreign = [digest for digest in bodies(other_id) if digest not in own]
    assert transcripts.read_texts(cell, foreign) == {} != transcripts.read_texts(other_cell, foreign)
    (restored,) = messages.restore(cell, {"input": [{"$message": foreign[0].hex()}]})["input"]
    assert restored["missing"] is True


@pytest.mark.usefixtures("upgraded")
@pytest.mark.parametrize(
    "statement",
    ["UPDATE ingest_chainlink SET step = 9", "UPDATE ingest_content SET size = 0", "DELETE FROM viewer_auditentry"],
)
def test_archive_and_audit_log_are_still_append_only(statement: str) -> None:
    with pytest.raises(Exception, match="append-only"), connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.usefixtures("upgraded")
@pytest.mark.parametrize("project_id", [OURS, THEIRS])
def test_comments_keep_their_ids_and_people(project_id: int) -> None:
    """With mentions and bookmarks. An id is not given again, also if its comment was deleted."""
    (cell,), pk = cells_of(project_id), {OURS: 1, THEIRS: 3}[project_id]
    (comment,) = Comment.objects.filter(cell=cell)
    assert (comment.id, comment.text, comment.author_id) == (pk, TEXTS[project_id][1], project_id)
    (mention,) = Mention.objects.filter(cell=cell).select_related("comment", "user")
    assert (mention.comment, mention.user.username) == (comment, f"user-{project_id}")
    marks = Bookmark.objects.filter(cell=cell, user_id=project_id, session_key=session_key(project_id, "same"))
    assert sorted(mark.compaction for mark in marks) == [0, 3]
    added = Comment.objects.create(cell=cell, session_key=comment.session_key, text="new")
    assert added.id > 4
    added.delete()


@pytest.mark.usefixtures("upgraded")
@pytest.mark.parametrize("project_id", [OURS, THEIRS])
def test_alerts_keep_their_rules_and_deliveries(project_id: int) -> None:
    """With their ids. A new alert does not get the id of an old one."""
    (cell,) = cells_of(project_id)
    (alert,) = Alert.objects.filter(cell=cell).select_related("rule")
    assert (alert.id, alert.title, alert.rule.project_id) == (project_id, TEXTS[project_id][1], project_id)
    (delivery,) = AlertDelivery.objects.filter(cell=cell).select_related("alert")
    assert (delivery.alert, delivery.recipient) == (alert, f"user-{project_id}@example.com")
    added = Alert.objects.create(cell=cell, rule=alert.rule, title="new")
    assert added.id > THEIRS
    added.delete()


@pytest.mark.usefixtures("upgraded")
def test_the_audit_log_is_intact() -> None:
    """It is one chain over all projects, and the next entry continues it."""
    assert log.find_problems() == []
    assert list(AuditEntry.objects.order_by("position").values_list("project_id", "detail")) == [
        (OURS, {"n": 0}), (THEIRS, {"n": 1}), (None, {"n": 2}),
    ]  # fmt: skip
    with transaction.atomic():
        entry = log.record(log.Origin(OURS, "ann"), log.Action.LOGIN)
        assert (entry.position, log.find_problems()) == (3, [])
        transaction.set_rollback(True)
