"""What an auditor does: find a transcript, check it, read it, take it away; all of it written down."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
from compact import bundle
from django.db import connection
from django.urls import reverse
from people import archived, person, project, signed_in

from ingest.models import Project, Transcript
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db


def url(name: str, transcript: Transcript) -> str:
    return reverse(name, args=[transcript.session_key, transcript.step])


def last() -> AuditEntry:
    return AuditEntry.objects.latest("position")


@pytest.mark.req("K-UI-3")
def test_an_auditor_downloads_a_redacted_transcript_and_the_reason_is_logged():
    """The file has the right name and no secret; the line has who, what, why and from where."""
    ours = project()
    transcript = archived(ours, texts=("password: hunter2secret", "ok"))
    client = signed_in(person("auditor", ours, name="ann"))
    response = client.get(url("transcript-download", transcript), {"reason": "Legal request", "note": "case 7"})
    content = response.getvalue()
    assert b"hunter2" not in content and b"<REDACTED>" in content
    assert 'filename="s-transcript-pre-compact-001.jsonl"' in response["Content-Disposition"]
    entry = last()
    assert (entry.actor, entry.action, entry.reason) == ("ann", "transcript.download", "Legal request: case 7")
    assert (entry.target, entry.address, entry.project_id) == ("s step 1", "127.0.0.1", ours.pk)


@pytest.mark.req("K-UI-3")
def test_a_bundle_from_the_page_is_proven_by_the_published_key():
    """What the button gives is what `compactctl verify` accepts."""
    ours = project()
    transcript = archived(ours)
    client = signed_in(person("auditor", ours))
    data = client.get(url("transcript-download", transcript), {"as": "bundle"}).getvalue()
    key = signed_in(None).get("/.well-known/ariadne-signing-key").content
    assert bundle.verify(data, public_key=key).ok
    assert json.loads(zipfile.ZipFile(io.BytesIO(data)).read("manifest.json"))["session"] == "s"
    assert last().action == "bundle.download"


@pytest.mark.req("K-UI-3")
def test_the_button_finds_a_changed_text():
    """Whole before, not whole after; both are in the log."""
    ours = project()
    transcript = archived(ours)
    client = signed_in(person("auditor", ours))
    assert "Verified" in client.post(url("transcript-verify", transcript), follow=True).content.decode()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM ingest_content")
    assert "Verification failed" in client.post(url("transcript-verify", transcript), follow=True).content.decode()
    assert last().detail == {"faults": 1}


@pytest.mark.req("P-SEC-1")
def test_texts_are_shown_only_on_request_with_the_right_and_logged():
    """The page without `show` has no text; with it, a line of the log says which messages."""
    ours = project()
    transcript = archived(ours, texts=tuple(f"message number {n}" for n in range(120)))
    client = signed_in(person("auditor", ours))
    assert "message number" not in client.get(url("transcript-detail", transcript)).content.decode()
    page = client.get(url("transcript-detail", transcript), {"show": "text", "from": "50"}).content.decode()
    assert "message number 50" in page and "message number 99" in page and "message number 100" not in page
    assert last().target == "s step 1 messages from 51"


def test_deleting_needs_the_right_and_a_reason_and_no_hold():
    """An auditor may not; an admin may, unless the project is held."""
    ours = project()
    transcript = archived(ours)
    auditor, admin = signed_in(person("auditor", ours)), signed_in(person("admin", ours))
    assert auditor.post(url("transcript-delete", transcript), {"reason": "x"}).status_code == 403
    admin.post(url("transcript-delete", transcript), {"reason": " "})
    Project.objects.update(legal_hold=True)
    admin.post(url("transcript-delete", transcript), {"reason": "asked to"})
    assert Transcript.objects.exists()
    Project.objects.update(legal_hold=False)
    admin.post(url("transcript-delete", transcript), {"reason": "asked to"})
    assert not Transcript.objects.exists() and last().reason == "asked to"


def test_pages_go_on_where_the_last_one_ended():
    """Every transcript once, whatever arrives in between."""
    ours = project()
    for step in range(120):
        archived(ours, step=step)
    client = signed_in(person("auditor", ours))
    seen, address = [], "/api/transcripts/"
    while address:
        page = client.get(address).json()
        seen += [row["step"] for row in page["results"]]
        address = page["next"]
        if len(seen) == 50:
            archived(ours, step=500)
    assert seen == list(range(119, -1, -1))


@pytest.mark.parametrize(
    "query", ["since=yesterday", "until=2026-13-40", "before=x", "before=2026~x~y", "since=0001-01-01"]
)
def test_a_filter_that_makes_no_sense_is_said_to_be_one(query: str):
    """400, on the page and in the API."""
    client = signed_in(person("auditor", project()))
    assert client.get(f"/transcripts/?{query}").status_code == 400
    assert client.get(f"/api/transcripts/?{query}").status_code == 400


def test_a_server_may_insist_on_a_reason(settings):
    """Then a download without one is refused, and nothing is logged as downloaded."""
    settings.REQUIRE_REASON = True
    ours = project()
    transcript = archived(ours)
    client = signed_in(person("auditor", ours))
    name = f"{transcript.session_key}.{transcript.step}"
    assert client.get(f"/api/transcripts/{name}/download/").status_code == 400
    assert client.get(url("transcript-download", transcript)).status_code == 302
    assert not AuditEntry.objects.filter(action="transcript.download", project_id=ours.pk).exists()
    response = client.get(f"/api/transcripts/{name}/download/?reason=audit")
    assert response.status_code == 200 and response.getvalue()
