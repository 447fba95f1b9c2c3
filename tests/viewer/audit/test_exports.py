"""Exports, bundles and retention of transcripts."""

from __future__ import annotations

import hashlib
import json
import zipfile
from io import BytesIO, StringIO
from typing import Any

import pytest
from compact import bundle
from compact.redaction import Redactor
from django.core.management import CommandError, call_command
from django.db import connection
from django.http import StreamingHttpResponse
from django.test import RequestFactory
from retention_runs import expire, expire_later

from ingest.archive import transcripts
from ingest.models import Project, RedactionRule, Transcript
from viewer.audit import signing
from viewer.audit.transcripts import bundles, exports
from viewer.audit.transcripts.pages import read_messages
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db

SECRET = "sk-proj-abcdefghijklmnopqrstuvwx1234567890"


@pytest.fixture
def transcript() -> Transcript:
    Project.objects.create(pk=1, slug="p", name="P", retention_days=30)
    return create_transcript()


def create_transcript(
    step: int = 1, *, redact: Any = None, text: str = "hello", session: str = "s", project_id: int = 1
) -> Transcript:
    messages = [
        {"id": "m1", "role": "user", "content": text},
        {"id": "m2", "role": "assistant", "content": "ok " * 50_000},
    ]
    body = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    digest = hashlib.sha256(body).hexdigest()
    stored = transcripts.store(
        project_id=project_id, session_id=session, step=step, body=body, sha256=digest, redact=redact
    )
    return Transcript.objects.get(session_key=stored.session_key, step=step)


def get(transcript: Transcript, **headers: str) -> tuple[Any, bytes]:
    request = RequestFactory().get("/", **{f"HTTP_{k.upper()}": v for k, v in headers.items()})
    response = exports.respond(request, exports.export(transcript), name="t.jsonl", content_type="application/jsonl")
    content = response.getvalue() if isinstance(response, StreamingHttpResponse) else response.content
    return response, content


@pytest.mark.req("K-UI-3")
def test_an_export_equals_the_archived_transcript(transcript: Transcript):
    """The bytes are equal if the current rules redact nothing new. Digest and length are in the headers."""
    response, content = get(transcript)
    assert hashlib.sha256(content).hexdigest() == transcript.sha256
    assert response["ETag"] == f'"{transcript.sha256}"'
    assert int(response["Content-Length"]) == len(content) == transcript.size


@pytest.mark.req("K-UI-3", "S-RED-1")
def test_an_export_is_redacted_with_the_current_rules(transcript: Transcript):
    """A secret that was archived before a rule existed is not exported."""
    old = create_transcript(2, redact=Redactor(rules=()).trees, text=f"the key is {SECRET}")
    assert SECRET.encode() in b"".join(transcripts.lines(old))
    response, content = get(old)
    assert SECRET.encode() not in content and b"<REDACTED>" in content
    assert response["X-Redactions"] != "none" and SECRET not in str(response.headers)
    assert [json.loads(line)["id"] for line in content.splitlines()] == ["m1", "m2"]


@pytest.mark.req("S-RED-1")
def test_the_rules_of_a_project_apply_to_its_exports_only(transcript: Transcript):
    """Two projects archived the same text. Each export, bundle and page follows the rules of its own project."""
    theirs = Project.objects.create(pk=2, slug="q", name="Q")
    RedactionRule.objects.create(project_id=1, kind="pattern", name="ticket", value=r"TICKET-\d+")
    RedactionRule.objects.create(project=theirs, kind="allow", name="", value="email")
    text = "TICKET-4711 of jo@example.com"
    ours, other = (
        create_transcript(2, redact=Redactor(rules=()).trees, text=text, session=f"s{number}", project_id=number)
        for number in (1, 2)
    )
    for content in (get(ours)[1], read_zip(bundles.build(ours, by="admin", reason="")[0]), page_of(ours)):
        assert b"TICKET-4711" not in content and b"jo@example.com" not in content
    assert b"TICKET-4711 of jo@example.com" in get(other)[1]
    assert b"TICKET-4711 of jo@example.com" in page_of(other)
    assert [len(read_messages(item, 0, "ticket-4711", {}).lines) for item in (ours, other)] == [0, 1]


def read_zip(content: bytes) -> bytes:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return b"".join(map(archive.read, archive.namelist()))


def page_of(transcript: Transcript) -> bytes:
    return str(read_messages(transcript, 0, "", {}).lines).encode()


@pytest.mark.parametrize(
    ("header", "status", "start", "end"),
    [
        ("bytes=0-9", 206, 0, 10),
        ("bytes=100000-", 206, 100_000, None),
        ("bytes=-5", 206, -5, None),
        ("bytes=0-999999999", 206, 0, None),
        ("bytes=0-1,4-5", 200, 0, None),
        ("bytes=-", 200, 0, None),
        ("lines=0-1", 200, 0, None),
        ("bytes=a-b", 200, 0, None),
    ],
)
def test_a_range_can_be_requested(transcript: Transcript, header: str, status: int, start: int, end: int | None):
    """An interrupted download can resume. Anything but a single range returns the whole file."""
    content_all = get(transcript)[1]
    response, content = get(transcript, range=header)
    assert (response.status_code, content) == (status, content_all[start:end])
    if status == 206:
        assert response["Content-Range"].endswith(f"/{len(content_all)}")


@pytest.mark.parametrize("header", ["bytes=99999999-", "bytes=5-2", "bytes=-0"])
def test_a_range_outside_the_file_is_rejected(transcript: Transcript, header: str):
    """The response contains the length of the file."""
    response, content = get(transcript, range=header)
    assert (response.status_code, content) == (416, b"")
    assert response["Content-Range"] == f"bytes */{transcript.size}"


def test_a_range_of_another_version_returns_the_whole_file(transcript: Transcript):
    """If-Range prevents a client from joining parts of different files."""
    response, content = get(transcript, range="bytes=0-9", if_range='"another"')
    assert (response.status_code, len(content)) == (200, transcript.size)


@pytest.mark.parametrize(
    ("session", "name"),
    [
        ("run-7", "run-7-transcript-pre-compact-001.jsonl"),
        ("../../etc/passwd", "etc_passwd-transcript-pre-compact-001.jsonl"),
        ('a"\r\nSet-Cookie: x=y', "a_Set-Cookie_x_y-transcript-pre-compact-001.jsonl"),
        ("日本", "日本-transcript-pre-compact-001.jsonl"),
        (".hidden", "hidden-transcript-pre-compact-001.jsonl"),
        ("x" * 500, "x" * 80 + "-transcript-pre-compact-001.jsonl"),
    ],
)
def test_a_file_name_is_safe_for_any_session_id(session: str, name: str):
    assert exports.file_name(Transcript(session_id=session, step=1), ".jsonl") == name


@pytest.mark.req("K-UI-3")
def test_a_bundle_verifies_with_the_published_key(transcript: Transcript):
    """The client's verifier accepts the bundle, including tombstones, and rejects a modified one."""
    create_transcript(2)
    transcripts.delete([Transcript.objects.get(step=2)], reason="asked to", by="ann")
    data, _ = bundles.build(transcript, by="ann", reason="test")
    published = json.dumps(signing.describe_keys()).encode()
    report = bundle.verify(data, public_key=published)
    assert report.ok, report.checks
    assert report.manifest["reason"] == "test"
    assert not bundle.verify(data.replace(b"manifest", b"mbnifest"), public_key=published).ok


@pytest.mark.req("K-UI-3")
def test_verify_archive_detects_a_missing_text(transcript: Transcript):
    """The command fails and names the session."""
    out = StringIO()
    call_command("verify_archive", stdout=out)
    assert "intact" in out.getvalue() and "Not anchored yet" in out.getvalue()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM ingest_content")
    with pytest.raises(CommandError, match="Verification failed"):
        call_command("verify_archive", stdout=out)
    assert "'s': step 1 has a message that is missing" in out.getvalue()


@pytest.mark.req("P-STO-1")
def test_retention_deletes_old_transcripts(transcript: Transcript):
    """Legal hold prevents it. The deletion is logged, and the archive still verifies."""
    fresh = create_transcript(2)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE ingest_transcript DISABLE TRIGGER USER")
        cursor.execute("UPDATE ingest_transcript SET received_at = now() - interval '31 days' WHERE step = 1")
        cursor.execute("ALTER TABLE ingest_transcript ENABLE TRIGGER USER")
    Project.objects.update(legal_hold=True)
    expire()
    assert Transcript.objects.count() == 2
    Project.objects.update(legal_hold=False)
    expire_later(days=1)
    assert list(Transcript.objects.values_list("step", flat=True)) == [fresh.step]
    assert AuditEntry.objects.latest("position").action == "transcript.delete"
    call_command("verify_archive", stdout=StringIO())
