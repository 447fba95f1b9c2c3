"""The pages of ingest keys and API tokens."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone
from people import client_for, create_project, create_user

from ingest.http import keys
from ingest.models import IngestKey
from viewer.models import ApiToken, AuditEntry

pytestmark = pytest.mark.django_db


def secret_in(page: str) -> str:
    match = re.search(r'data-testid="secret">([^<]+)<', page)
    assert match, "no secret on the page"
    return match[1]


@pytest.mark.req("P-SEC-1")
def test_a_new_key_is_shown_once():
    """The key works, is not shown or stored again, and its creation is logged."""
    ours = create_project()
    client = client_for(create_user("developer", ours))
    response = client.post("/keys/", {"label": "nightly", "project": "ours"})
    key = secret_in(response.content.decode())
    assert keys.is_valid(key, ours) and "no-store" in response["Cache-Control"]
    assert key not in client.get("/keys/").content.decode()
    assert key not in str(list(IngestKey.objects.values()))
    entry = AuditEntry.objects.latest("position")
    assert entry.action == "key.create" and key not in str(entry.detail) + entry.target


def test_a_rotated_key_keeps_working_for_a_day():
    """Both keys are valid until the old one expires."""
    ours = create_project()
    client = client_for(create_user("developer", ours))
    old = secret_in(client.post("/keys/", {"label": "k", "project": "ours"}).content.decode())
    new = secret_in(client.post(f"/keys/{IngestKey.objects.get().pk}/rotate/").content.decode())
    assert keys.is_valid(old, ours) and keys.is_valid(new, ours)
    IngestKey.objects.filter(revoked_at__isnull=False).update(revoked_at=timezone.now())
    assert not keys.is_valid(old, ours) and keys.is_valid(new, ours)


@pytest.mark.req("P-SEC-1")
def test_developers_manage_their_own_keys_and_admins_those_of_their_project():
    """Other keys do not exist for them."""
    ours, theirs = create_project("ours"), create_project("theirs")
    keys.create(ours, label="anns", created_by=create_user("developer", ours))
    key = IngestKey.objects.get()
    for stranger in (create_user("developer", ours), create_user("admin", theirs)):
        client = client_for(stranger)
        assert "anns" not in client.get("/keys/").content.decode()
        assert client.post(f"/keys/{key.pk}/revoke/").status_code == 404
        assert client.post(f"/keys/{key.pk}/rotate/").status_code == 404
    assert client_for(create_user("admin", ours)).post(f"/keys/{key.pk}/revoke/").status_code == 302
    assert not keys.active().exists()


def test_a_key_cannot_be_created_in_another_project():
    create_project("theirs")
    client_for(create_user("developer", create_project("ours"))).post("/keys/", {"label": "x", "project": "theirs"})
    assert not IngestKey.objects.exists()


@pytest.mark.req("P-SEC-1")
def test_a_token_may_read_only_its_scopes():
    """Scopes apply to the API. Pages do not accept tokens."""
    ours = create_project()
    client = client_for(create_user("auditor", ours))
    page = client.post("/tokens/", {"label": "ci", "scopes": ["view_transcript", "manage_project"], "days": "7"})
    bearer = {"headers": {"Authorization": f"Bearer {secret_in(page.content.decode())}"}}
    stranger = client_for(None)
    assert stranger.get("/api/transcripts/", **bearer).status_code == 200
    assert stranger.get("/api/audit/", **bearer).status_code == 403
    assert stranger.get("/transcripts/", **bearer).status_code == 302
    assert ApiToken.objects.get().scopes == ["view_transcript"]
    client.post(f"/tokens/{ApiToken.objects.get().pk}/revoke/")
    assert stranger.get("/api/transcripts/", **bearer).status_code == 401


def test_tokens_of_other_users_are_hidden():
    """They are not listed and cannot be revoked."""
    ours = create_project()
    client_for(create_user("developer", ours)).post("/tokens/", {"label": "mine", "scopes": ["view_tail"]})
    other = client_for(create_user("admin", ours))
    assert "mine" not in other.get("/tokens/").content.decode()
    assert other.post(f"/tokens/{ApiToken.objects.get().pk}/revoke/").status_code == 404
