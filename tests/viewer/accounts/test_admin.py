"""The admin site logs every change, shows no secrets and does not delete projects."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from people import client_for, create_project, create_user

from ingest.http import keys
from ingest.models import IngestKey, Project
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture
def root():
    return client_for(User.objects.create_superuser("root"))


@pytest.mark.req("P-SEC-1")
def test_changes_to_users_are_in_the_audit_log(root):
    """The entry names the changed fields. It never contains the new password."""
    ann = create_user("", name="ann")
    data = {"password1": "correct horse battery", "password2": "correct horse battery", "usable_password": "true"}
    assert root.post(f"/admin/auth/user/{ann.pk}/password/", data).status_code == 302
    entry = AuditEntry.objects.latest("position")
    assert (entry.action, entry.actor, entry.target) == ("user.change", "root", "user ann")
    assert "correct horse" not in str(entry.detail)


def test_a_key_is_shown_without_its_digest_and_can_be_revoked(root):
    """Revoking it from the list is recorded in the audit log."""
    ours = create_project()
    keys.create(ours, label="nightly")
    key = IngestKey.objects.get()
    assert key.digest not in root.get(f"/admin/ingest/ingestkey/{key.pk}/change/").content.decode()
    root.post("/admin/ingest/ingestkey/", {"action": "revoke", "_selected_action": [key.pk]})
    assert not keys.active().exists()
    assert AuditEntry.objects.latest("position").action == "key.revoke"


def test_a_project_cannot_be_deleted(root):
    """Its transcripts are subject to retention and legal hold."""
    ours = create_project()
    assert root.post(f"/admin/ingest/project/{ours.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Project.objects.exists()


def test_users_without_staff_status_have_no_access():
    """This includes project admins."""
    assert client_for(create_user("admin", create_project())).get("/admin/").status_code == 302
