"""The administration site: every change is logged, no secret is shown, an archive is not deleted by the back door."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from people import person, project, signed_in

from ingest.http import keys
from ingest.models import IngestKey, Project
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture
def root():
    return signed_in(User.objects.create_superuser("root"))


@pytest.mark.req("P-SEC-1")
def test_changes_to_people_are_in_the_audit_log(root):
    """By the names of the fields; a new password is never among them."""
    ann = person("", name="ann")
    data = {"password1": "correct horse battery", "password2": "correct horse battery", "usable_password": "true"}
    assert root.post(f"/admin/auth/user/{ann.pk}/password/", data).status_code == 302
    entry = AuditEntry.objects.latest("position")
    assert (entry.action, entry.actor, entry.target) == ("user.change", "root", "user ann")
    assert "correct horse" not in str(entry.detail)


def test_a_key_is_looked_at_without_its_digest_and_revoked(root):
    """From the list, and the log says who did."""
    ours = project()
    keys.create(ours, label="nightly")
    key = IngestKey.objects.get()
    assert key.digest not in root.get(f"/admin/ingest/ingestkey/{key.pk}/change/").content.decode()
    root.post("/admin/ingest/ingestkey/", {"action": "revoke", "_selected_action": [key.pk]})
    assert not keys.active().exists()
    assert AuditEntry.objects.latest("position").action == "key.revoke"


def test_a_project_is_not_deleted_here(root):
    """Its transcripts answer to retention and holds, not to a button."""
    ours = project()
    assert root.post(f"/admin/ingest/project/{ours.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Project.objects.exists()


def test_people_without_staff_rights_stay_out():
    """Even the administrators of a project."""
    assert signed_in(person("admin", project())).get("/admin/").status_code == 302
