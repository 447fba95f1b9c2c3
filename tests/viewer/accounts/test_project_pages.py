"""What the administrators of a project decide, and that it ends at the project."""

from __future__ import annotations

import pytest
from people import archived, person, project, signed_in

from ingest.models import Project
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.models import AuditEntry, Membership

pytestmark = pytest.mark.django_db


@pytest.mark.req("P-STO-1")
def test_retention_and_hold_are_set_with_a_reason():
    """Without one, or with a number that makes no sense, nothing changes."""
    ours = project()
    admin = signed_in(person("admin", ours))
    for data in (
        {"retention_days": "30"},
        {"retention_days": "-1", "reason": "x"},
        {"retention_days": "x", "reason": "x"},
    ):
        admin.post("/projects/ours/keep/", data)
    assert Project.objects.get().retention_days is None
    admin.post("/projects/ours/keep/", {"retention_days": "30", "legal_hold": "on", "reason": "case 7"})
    ours.refresh_from_db()
    assert (ours.retention_days, ours.legal_hold) == (30, True)
    entry = AuditEntry.objects.latest("position")
    assert entry.reason == "case 7"
    assert entry.detail["before"] == {"retention_days": None, "legal_hold": False}
    admin.post("/projects/ours/keep/", {"retention_days": "", "reason": "closed"})
    ours.refresh_from_db()
    assert (ours.retention_days, ours.legal_hold) == (None, False)


@pytest.mark.req("P-SEC-1")
def test_a_role_given_here_counts_here_alone():
    """An operator elsewhere may be made the auditor of this project, and loses it with the membership."""
    ours, theirs = project("ours"), project("theirs")
    olga = person("operator", theirs, name="olga")
    admin = signed_in(person("admin", ours))
    admin.post("/projects/ours/members/", {"username": "olga", "role": "auditors"})
    assert access.user_grant(olga).projects(Right.TRANSCRIPTS) == {ours.pk}
    assert archived(ours) and signed_in(olga).get("/api/transcripts/").json()["results"][0]["project_id"] == ours.pk
    membership = Membership.objects.get(user=olga, project=ours)
    admin.post(f"/projects/ours/members/{membership.pk}/remove/")
    assert access.user_grant(olga).projects(Right.SESSIONS) == {theirs.pk}
    assert AuditEntry.objects.latest("position").target == "olga in ours"


@pytest.mark.req("P-SEC-1")
def test_managing_ends_at_ones_own_project():
    """Neither its settings nor its people; a role of another name gives nothing; an auditor manages nothing."""
    ours, theirs = project("ours"), project("theirs")
    person("operator", theirs, name="olga")
    membership = Membership.objects.get()
    admin = signed_in(person("admin", ours))
    assert admin.post("/projects/theirs/keep/", {"legal_hold": "on", "reason": "x"}).status_code == 404
    assert admin.post("/projects/theirs/members/", {"username": "olga", "role": "admins"}).status_code == 404
    assert admin.post(f"/projects/ours/members/{membership.pk}/remove/").status_code == 404
    admin.post("/projects/ours/members/", {"username": "olga", "role": "superusers"})
    assert Membership.objects.filter(user__username="olga").count() == 1
    assert signed_in(person("auditor", ours)).get("/projects/ours/").status_code == 403
