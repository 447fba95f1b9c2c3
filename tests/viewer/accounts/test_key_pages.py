"""Ingest keys and API tokens by hand: shown once, one's own, ended."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone
from people import person, project, signed_in

from ingest.http import keys
from ingest.models import IngestKey
from viewer.models import ApiToken, AuditEntry

pytestmark = pytest.mark.django_db


def secret_in(page: str) -> str:
    found = re.search(r'data-testid="secret">([^<]+)<', page)
    assert found, "no secret on the page"
    return found[1]


@pytest.mark.req("P-SEC-1")
def test_a_developer_makes_a_key_that_is_shown_once():
    """It works, its text is nowhere afterwards, and making it is in the log."""
    ours = project()
    client = signed_in(person("developer", ours))
    response = client.post("/keys/", {"label": "nightly", "project": "ours"})
    key = secret_in(response.content.decode())
    assert keys.is_valid(key, ours) and "no-store" in response["Cache-Control"]
    assert key not in client.get("/keys/").content.decode()
    assert key not in str(list(IngestKey.objects.values()))
    entry = AuditEntry.objects.latest("position")
    assert entry.action == "key.create" and key not in str(entry.detail) + entry.target


def test_a_rotated_key_overlaps_with_its_successor():
    """Both count for a day, then only the new one."""
    ours = project()
    client = signed_in(person("developer", ours))
    old = secret_in(client.post("/keys/", {"label": "k", "project": "ours"}).content.decode())
    new = secret_in(client.post(f"/keys/{IngestKey.objects.get().pk}/rotate/").content.decode())
    assert keys.is_valid(old, ours) and keys.is_valid(new, ours)
    IngestKey.objects.filter(revoked_at__isnull=False).update(revoked_at=timezone.now())
    assert not keys.is_valid(old, ours) and keys.is_valid(new, ours)


@pytest.mark.req("P-SEC-1")
def test_one_may_only_touch_ones_own_keys_unless_one_manages_the_project():
    """Another developer's key is not there; an admin's reach ends at the project."""
    ours, theirs = project("ours"), project("theirs")
    keys.create(ours, label="anns", created_by=person("developer", ours))
    key = IngestKey.objects.get()
    for stranger in (person("developer", ours), person("admin", theirs)):
        client = signed_in(stranger)
        assert "anns" not in client.get("/keys/").content.decode()
        assert client.post(f"/keys/{key.pk}/revoke/").status_code == 404
        assert client.post(f"/keys/{key.pk}/rotate/").status_code == 404
    assert signed_in(person("admin", ours)).post(f"/keys/{key.pk}/revoke/").status_code == 302
    assert not keys.active().exists()


def test_a_key_cannot_be_made_in_another_project():
    """Even by its slug."""
    project("theirs")
    signed_in(person("developer", project("ours"))).post("/keys/", {"label": "x", "project": "theirs"})
    assert not IngestKey.objects.exists()


@pytest.mark.req("P-SEC-1")
def test_a_token_reads_what_was_ticked_and_nothing_else():
    """Scopes are the API's rights; managing pages do not know tokens at all."""
    ours = project()
    client = signed_in(person("auditor", ours))
    page = client.post("/tokens/", {"label": "ci", "scopes": ["view_transcript", "manage_project"], "days": "7"})
    bearer = {"headers": {"Authorization": f"Bearer {secret_in(page.content.decode())}"}}
    stranger = signed_in(None)
    assert stranger.get("/api/transcripts/", **bearer).status_code == 200
    assert stranger.get("/api/audit/", **bearer).status_code == 403
    assert stranger.get("/transcripts/", **bearer).status_code == 302
    assert ApiToken.objects.get().scopes == ["view_transcript"]
    client.post(f"/tokens/{ApiToken.objects.get().pk}/revoke/")
    assert stranger.get("/api/transcripts/", **bearer).status_code == 401


def test_tokens_of_others_are_not_there():
    """Neither shown nor revocable."""
    ours = project()
    signed_in(person("developer", ours)).post("/tokens/", {"label": "mine", "scopes": ["view_tail"]})
    other = signed_in(person("admin", ours))
    assert "mine" not in other.get("/tokens/").content.decode()
    assert other.post(f"/tokens/{ApiToken.objects.get().pk}/revoke/").status_code == 404
