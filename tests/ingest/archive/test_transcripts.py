"""Transcripts are stored once, linked in a chain, and deleted with a tombstone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from ingest.archive import transcripts, verification
from ingest.archive.hash_chain import canonical
from ingest.archive.transcript_format import BadTranscript
from ingest.models import ChainLink, Content, Project, Transcript

pytestmark = pytest.mark.django_db

MESSAGES = [{"id": "m1", "role": "system", "content": "Be brief."}, {"id": "m2", "role": "user", "content": "naïve ✓"}]


def jsonl(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@pytest.fixture(autouse=True)
def project() -> Project:
    return Project.objects.create(pk=1, slug="p", name="P")


def no_redaction(messages: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, int]]]:
    return [(dict(message), {}) for message in messages]


def store(messages: list[dict[str, Any]] = MESSAGES, *, step: int = 1, **changes: Any) -> transcripts.StoredTranscript:
    body = changes.pop("body", jsonl(messages))
    arguments = {"project_id": 1, "session_id": "s", "redact": no_redaction, "sha256": hashlib.sha256(body).hexdigest()}
    return transcripts.store(**{**arguments, **changes, "step": step, "body": body})


def archived_text(step: int = 1) -> bytes:
    return b"".join(line + b"\n" for line in transcripts.lines(Transcript.objects.get(step=step)))


@pytest.mark.req("K-UI-3")
def test_a_transcript_is_read_back_unchanged():
    """The messages and their order are the same, and the digest is that of the returned bytes."""
    stored = store()
    assert [json.loads(line) for line in archived_text().splitlines()] == MESSAGES
    assert hashlib.sha256(archived_text()).hexdigest() == stored.sha256
    assert (stored.size, stored.message_count, stored.created) == (len(archived_text()), 2, True)


def test_each_text_is_stored_once():
    """Ten steps with the same messages share one copy of each, even if the ids differ."""
    for step in range(10):
        store([{**message, "id": f"{step}-{n}"} for n, message in enumerate(MESSAGES)], step=step)
    assert Content.objects.count() == 2
    digest = hashlib.sha256(canonical({"role": "system", "content": "Be brief."})).digest()
    assert {bytes(h) for h in Content.objects.values_list("hash", flat=True)} >= {digest}


@pytest.mark.req("K-UI-3")
def test_a_retry_of_a_step_changes_nothing():
    """The result is the same, and no link is added."""
    first, again = store(), store()
    assert (again.created, again.chain) == (False, first.chain)
    assert (Transcript.objects.count(), ChainLink.objects.filter(session_id="s").count()) == (1, 1)


def test_different_content_for_an_archived_step_is_a_conflict():
    """An archived step is never replaced. The error has the next free step, after deleted ones too."""
    store()
    store([{"role": "user", "content": "last"}], step=4)
    transcripts.delete([Transcript.objects.get(step=4)], reason="requested", by="ann")
    for step in (1, 4):
        with pytest.raises(transcripts.StepConflict) as conflict:
            store([{"role": "user", "content": "rewritten"}], step=step)
        assert conflict.value.next_step == 5


@pytest.mark.req("S-RED-1")
def test_a_key_that_is_split_over_two_lines_is_redacted():
    """A client without redaction sends it. The labels of the messages stay."""
    half = "MIIEpAIBAAKCAQEA" + "q7Xz81kPwT3r" * 4
    first = {"id": "m1", "role": "user", "content": f"-----BEGIN RSA PRIVATE KEY-----\n{half}"}
    second = {"id": "m2", "role": "user", "content": f"{half[::-1]}\n-----END RSA PRIVATE KEY-----\nThanks."}
    store([first, second], redact=None)
    text = b"\n".join(transcripts.lines(Transcript.objects.get()))
    assert half.encode() not in text and half[::-1].encode() not in text
    assert [json.loads(line)["role"] for line in text.splitlines()] == ["user", "user"]


def test_lone_surrogates_are_replaced():
    """Tools print them, and the rest of the step must not be lost."""
    store(body=b'{"id":"\\udc00","role":"user","content":"a\\ud800b"}\n', redact=None)
    (transcript,) = Transcript.objects.all()
    (line,) = transcripts.lines(transcript)
    assert json.loads(line) == {"id": "\ufffd", "role": "user", "content": "a\ufffdb"}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"sha256": "0" * 64}, "sha256"),
        ({"session_id": ""}, "session"),
        ({"session_id": "a\x00b"}, "session"),
        ({"session_id": "é" * 513}, "session"),
        ({"step": -1}, "step"),
        ({"body": b'{"role":"user"}\nnot json\n'}, "line 2"),
        ({"body": b'["a list"]\n'}, "line 1"),
        ({"body": b'{"a":NaN}\n'}, "line 1"),
        ({"body": b'{"a":1}\n{"a":[1e999999]}\n'}, "line 2"),
        ({"body": b'{"a":"\xff"}\n'}, "line 1"),
        ({"body": b'{"a":' + b"[" * 100_000 + b"\n"}, "line 1"),
        ({"body": b'{"a":' + b"[" * 900 + b"]" * 900 + b"}\n"}, "line 1"),
        ({"body": b"\n\n"}, "body"),
    ],
)
def test_an_invalid_transcript_is_rejected_as_a_whole(changes: dict[str, Any], path: str):
    """The error has the path, and nothing is stored."""
    with pytest.raises(BadTranscript) as error:
        store(**changes)
    assert error.value.path == path
    assert not Transcript.objects.exists() and not Content.objects.exists()


@pytest.mark.req("K-UI-3")
def test_deletion_leaves_a_tombstone_and_shared_texts():
    """The chain grows by one link, unused texts are deleted, and the step cannot be archived again."""
    store()
    store([MESSAGES[0], {"role": "user", "content": "only here"}], step=2)
    transcripts.delete([Transcript.objects.get(step=2)], reason="requested", by="ann")
    links = list(ChainLink.objects.filter(session_id="s").order_by("position"))
    assert [(link.kind, link.step) for link in links] == [("stored", 1), ("stored", 2), ("deleted", 2)]
    assert links[2].manifest == {"by": "ann", "reason": "requested"}
    assert Content.objects.count() == 2 and len(archived_text(1)) > 0
    with pytest.raises(transcripts.StepConflict):
        store(step=2)


@pytest.mark.req("K-UI-3")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ingest_chainlink SET step = 9",
        "DELETE FROM ingest_chainlink",
        "TRUNCATE ingest_chainlink",
        "UPDATE ingest_transcript SET sha256 = ''",
        "UPDATE ingest_content SET size = 0",
    ],
)
def test_the_database_rejects_changes_to_the_archive(statement: str):
    """Triggers make the tables append-only."""
    store()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.req("K-UI-3")
def test_nothing_is_deleted_under_legal_hold(project: Project):
    """Deletion raises an error."""
    Project.objects.update(legal_hold=True)
    store()
    with pytest.raises(transcripts.LegalHold):
        transcripts.delete(list(Transcript.objects.all()), reason="requested", by="ann")
    assert Transcript.objects.exists()


@pytest.mark.req("S-RED-1")
def test_secrets_are_redacted_on_arrival():
    """Redactions are counted by rule. The digest of the original bytes still identifies a retry."""
    stored = store([{"role": "user", "content": "api_key=sk-abcdefghijklmnop1234"}], redact=None)
    assert b"sk-abc" not in archived_text() and b"<REDACTED>" in archived_text()
    assert sum(stored.redactions.values()) == 1
    again = store([{"role": "user", "content": "api_key=sk-abcdefghijklmnop1234"}], redact=None)
    assert not again.created


def test_redactions_by_the_client_are_counted():
    """Under one name, because the server does not know the rules."""
    stored = store([{"role": "user", "content": "password=<REDACTED> and api_key=<REDACTED>"}], redact=None)
    assert stored.redactions == {"client": 2}


@pytest.mark.django_db(transaction=True)
async def test_transcripts_can_be_stored_from_the_event_loop():
    """`astore` runs on another thread."""
    body = jsonl(MESSAGES)
    digest = hashlib.sha256(body).hexdigest()
    stored = await transcripts.astore(
        project_id=991, session_id="loop", step=1, body=body, sha256=digest, redact=no_redaction
    )
    assert stored.created


def test_two_projects_share_nothing():
    """The same session, step and texts in another project are rows of its own cell, and outlive ours."""
    Project.objects.create(pk=2, slug="q", name="Q")
    ours, theirs = store(), store(project_id=2)
    secret = [{"id": "m1", "role": "user", "content": "Planted-Sesame"}]
    store(secret, step=2, project_id=2)
    assert ours.sha256 == theirs.sha256 and ours.chain != theirs.chain
    cells = {row.project_id: row.cell for row in Transcript.objects.filter(step=1)}
    (digest,) = transcripts.message_hashes(Transcript.objects.get(step=2))
    assert b"Planted-Sesame" in transcripts.read_texts(cells[2], [digest])[digest]
    assert transcripts.read_texts(cells[1], [digest]) == {}
    transcripts.delete(list(Transcript.objects.filter(cell=cells[1])), reason="requested", by="ann")
    assert Content.objects.filter(cell=cells[1]).count() == 0
    results = {result.project_id: result for result in verification.verify_all()}
    assert (results[1].stored, results[1].deleted, results[2].stored) == (0, 1, 2)
    assert [result.project_id for result in verification.verify_all([2])] == [2]
    assert not any(result.faults for result in results.values())
