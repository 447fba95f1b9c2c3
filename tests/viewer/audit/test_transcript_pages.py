"""Transcript pages: list, verification, text, download and deletion, all of it logged."""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import Any

import pytest
from compact import bundle
from django.db import connection
from django.urls import reverse
from django.utils import timezone
from people import client_for, create_project, create_session, create_transcript, create_user, data_bytes

from ingest.models import Project, Session, Span, Transcript
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db


def url(name: str, transcript: Transcript) -> str:
    return reverse(name, args=[transcript.session_key, transcript.step])


def last_entry() -> AuditEntry:
    return AuditEntry.objects.latest("position")


@pytest.mark.req("K-UI-3")
def test_a_download_is_redacted_and_logged_with_its_reason():
    ours = create_project()
    transcript = create_transcript(ours, texts=("password: hunter2secret", "ok"))
    client = client_for(create_user("auditor", ours, name="ann"))
    response = client.get(url("transcript-download", transcript), {"reason": "Legal request", "note": "case 7"})
    content = response.getvalue()
    assert b"hunter2" not in content and b"<REDACTED>" in content
    assert 'filename="s-transcript-pre-compact-001.jsonl"' in response["Content-Disposition"]
    entry = last_entry()
    assert (entry.actor, entry.action, entry.reason) == ("ann", "transcript.download", "Legal request: case 7")
    assert (entry.target, entry.address, entry.project_id) == ("s step 1", "127.0.0.1", ours.pk)


@pytest.mark.req("K-UI-3")
def test_a_downloaded_bundle_verifies_with_the_published_key():
    """`compactctl verify` accepts the same bundle."""
    ours = create_project()
    transcript = create_transcript(ours)
    client = client_for(create_user("auditor", ours))
    data = client.get(url("transcript-download", transcript), {"as": "bundle"}).getvalue()
    key = client_for(None).get("/.well-known/ariadne-signing-key").content
    assert bundle.verify(data, public_key=key).ok
    assert json.loads(zipfile.ZipFile(io.BytesIO(data)).read("manifest.json"))["session"] == "s"
    assert last_entry().action == "bundle.download"


@pytest.mark.req("K-UI-3")
def test_verification_detects_a_missing_text():
    """Both verifications are logged."""
    ours = create_project()
    transcript = create_transcript(ours)
    client = client_for(create_user("auditor", ours))
    page = client.post(url("transcript-verify", transcript), follow=True).content.decode()
    assert "Verified 1 transcripts and 0 tombstones. All texts and links are intact." in page
    assert "The newest of them is not anchored yet." in page
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM ingest_content")
    assert "Verification failed" in client.post(url("transcript-verify", transcript), follow=True).content.decode()
    detail = last_entry().detail
    assert (detail["faults"], detail["result"], detail["session"]) == (1, "failed", "s")


@pytest.mark.req("P-SEC-1")
def test_texts_are_shown_only_on_request_and_logged():
    """The page without `show` has no text. The audit entry names the messages that were shown."""
    ours = create_project()
    transcript = create_transcript(ours, texts=tuple(f"message number {n}" for n in range(120)))
    client = client_for(create_user("auditor", ours))
    assert "message number" not in client.get(url("transcript-detail", transcript)).content.decode()
    page = client.get(url("transcript-detail", transcript), {"show": "text", "from": "50"}).content.decode()
    assert "message number 50" in page and "message number 99" in page and "message number 100" not in page
    assert last_entry().target == "s step 1 messages from 51"


def test_deletion_needs_the_right_and_a_reason_and_no_legal_hold():
    """Auditors may not delete. Admins may, unless the project is on legal hold."""
    ours = create_project()
    transcript = create_transcript(ours)
    auditor, admin = client_for(create_user("auditor", ours)), client_for(create_user("admin", ours))
    assert auditor.post(url("transcript-delete", transcript), {"reason": "x"}).status_code == 403
    admin.post(url("transcript-delete", transcript), {"reason": " "})
    Project.objects.update(legal_hold=True)
    admin.post(url("transcript-delete", transcript), {"reason": "asked to"})
    assert Transcript.objects.exists()
    Project.objects.update(legal_hold=False)
    admin.post(url("transcript-delete", transcript), {"reason": "asked to"})
    assert not Transcript.objects.exists() and last_entry().reason == "asked to"


def test_new_transcripts_do_not_shift_the_pages():
    """Each transcript is listed once."""
    ours = create_project()
    for step in range(120):
        create_transcript(ours, step=step)
    client = client_for(create_user("auditor", ours))
    steps, url = [], "/api/transcripts/"
    while url:
        page = client.get(url).json()
        steps += [row["step"] for row in page["results"]]
        url = page["next"]
        if len(steps) == 50:
            create_transcript(ours, step=500)
    assert steps == list(range(119, -1, -1))


@pytest.mark.parametrize(
    "query", ["since=yesterday", "until=2026-13-40", "before=x", "before=2026~x~y", "since=0001-01-01"]
)
def test_an_invalid_filter_is_rejected(query: str):
    """The response is 400 on the page and in the API."""
    client = client_for(create_user("auditor", create_project()))
    assert client.get(f"/transcripts/?{query}").status_code == 400
    assert client.get(f"/api/transcripts/?{query}").status_code == 400


def test_a_server_can_require_a_reason(settings):
    """A download without a reason is rejected and not logged as a download."""
    settings.REQUIRE_REASON = True
    ours = create_project()
    transcript = create_transcript(ours)
    client = client_for(create_user("auditor", ours))
    name = f"{transcript.session_key}.{transcript.step}"
    assert client.get(f"/api/transcripts/{name}/download/").status_code == 400
    assert client.get(url("transcript-download", transcript)).status_code == 302
    assert not AuditEntry.objects.filter(action="transcript.download", project_id=ours.pk).exists()
    response = client.get(f"/api/transcripts/{name}/download/?reason=audit")
    assert response.status_code == 200 and response.getvalue()


def add_archival(session: Session, span_id: str, **data: Any) -> None:
    """Add an event of an agent to a session."""
    Span.objects.create(
        session_key=session.session_key,
        session_day=session.day,
        trace_id=f"t-{session.session_id}",
        span_id=span_id,
        cell=session.cell,
        seq=ord(span_id[0]),
        kind="compact.archival",
        started_at=timezone.now(),
        data=data_bytes({"storage_adapter": "ariadne", **data}),
    )


@pytest.mark.req("K-UI-3")
def test_the_list_shows_what_is_queued_and_what_failed():
    """A transcript that arrived is stored, whatever the last event says. Other projects see none of it."""
    ours, theirs = create_project(), create_project("theirs")
    stored = create_transcript(ours)
    session = create_session(ours)
    add_archival(session, "b", state="queued", step=1, sha256=stored.sent_sha256)
    add_archival(session, "c", state="queued", step=2, sha256="2" * 64)
    add_archival(session, "d", state="queued", step=3, sha256="3" * 64)
    add_archival(session, "e", state="failed", step=3, sha256="3" * 64, error="HTTP 400: damaged")
    add_archival(session, "f", state="queued", step=4, sha256="4" * 64)
    add_archival(session, "g", state="stored", step=5, sha256="4" * 64)
    add_archival(session, "h", step=6, sha256="6" * 64)
    other = create_session(theirs, session_id="other-session")
    add_archival(other, "b", state="failed", step=9, error="secret of theirs")
    page = client_for(create_user("auditor", ours)).get(reverse("transcript-list")).content.decode()
    rows = re.findall(r'data-testid="unstored-row">(.*?)</tr>', page, re.DOTALL)
    cells = [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in rows]
    assert len(cells) == 2
    assert cells[0].startswith("s 3 Failed") and cells[0].endswith("ariadne HTTP 400: damaged")
    assert cells[1].startswith("s 2 Queued") and cells[1].endswith("ariadne The agent has not delivered it yet")
    assert "other-session" not in page and "secret of theirs" not in page
    assert 'data-testid="transcript-row"' in page and ">Stored<" in page
    assert "unstored-row" not in client_for(create_user("auditor", create_project("empty"))).get("/transcripts/").text
