"""Project settings: retention, legal hold and members."""

from __future__ import annotations

import pytest
from django.utils import timezone
from people import client_for, create_project, create_transcript, create_user

from ingest.models import Project, RedactionRule, RetentionClock, RetentionMark
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.models import AuditEntry, Membership

pytestmark = pytest.mark.django_db


@pytest.mark.req("P-STO-1")
def test_retention_and_legal_hold_need_a_reason():
    """Without a reason, or with an invalid number of days, nothing changes."""
    ours = create_project()
    admin = client_for(create_user("admin", ours))
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
    assert entry.detail["before"] == {"retention_days": None, "legal_hold": False, "requires_view_reason": False}
    admin.post("/projects/ours/keep/", {"retention_days": "", "reason": "closed"})
    ours.refresh_from_db()
    assert (ours.retention_days, ours.legal_hold) == (None, False)


def test_the_settings_say_what_will_be_deleted_and_why_nothing_is():
    """Each project shows its own mark. A clock that is not plausible concerns all of them."""
    ours, theirs = create_project("ours"), create_project("theirs")
    RetentionMark.objects.create(project=theirs, cutoff="2026-10-20", marked_at=timezone.now(), waited_s=0)
    pages = [client_for(create_user("admin", owner)) for owner in (ours, theirs)]
    texts = [
        admin.get(f"/projects/{slug}/").content.decode() for admin, slug in zip(pages, ("ours", "theirs"), strict=True)
    ]
    assert ["before 2026-10-20 is marked" in text for text in texts] == [False, True]
    RetentionClock.objects.create(checked_at=timezone.now(), problem="The clock says 2099.")
    assert "The clock says 2099." in pages[0].get("/projects/ours/").content.decode()


@pytest.mark.req("P-SEC-1")
def test_a_role_applies_only_to_its_project():
    """An operator of another project can become an auditor of this one, until the membership ends."""
    ours, theirs = create_project("ours"), create_project("theirs")
    olga = create_user("operator", theirs, name="olga")
    admin = client_for(create_user("admin", ours))
    admin.post("/projects/ours/members/", {"username": "olga", "role": "auditors"})
    assert access.user_grant(olga).projects(Right.TRANSCRIPTS) == {ours.pk}
    assert (
        create_transcript(ours)
        and client_for(olga).get("/api/transcripts/").json()["results"][0]["project_id"] == ours.pk
    )
    membership = Membership.objects.get(user=olga, project=ours)
    admin.post(f"/projects/ours/members/{membership.pk}/remove/")
    assert access.user_grant(olga).projects(Right.SESSIONS) == {theirs.pk}
    assert AuditEntry.objects.latest("position").target == "olga in ours"


@pytest.mark.req("P-SEC-1")
def test_admins_manage_only_their_own_project():
    """Other projects' settings and members do not exist for them. Unknown roles are rejected."""
    ours, theirs = create_project("ours"), create_project("theirs")
    create_user("operator", theirs, name="olga")
    membership = Membership.objects.get()
    admin = client_for(create_user("admin", ours))
    assert admin.post("/projects/theirs/keep/", {"legal_hold": "on", "reason": "x"}).status_code == 404
    assert admin.post("/projects/theirs/members/", {"username": "olga", "role": "admins"}).status_code == 404
    assert admin.post(f"/projects/ours/members/{membership.pk}/remove/").status_code == 404
    admin.post("/projects/ours/members/", {"username": "olga", "role": "superusers"})
    assert Membership.objects.filter(user__username="olga").count() == 1
    assert client_for(create_user("auditor", ours)).get("/projects/ours/").status_code == 403


def test_the_list_of_projects_counts_members_and_rules():
    first, second = create_project("first"), create_project("second")
    admin = create_user("admin", first, second)
    create_user("operator", first)
    RedactionRule.objects.create(project=second, kind="pattern", name="badge", value="B-[0-9]+")
    page = client_for(admin).get("/projects/").content.decode()
    rows = [row.split("</tr>")[0] for row in page.split("<tr>")[2:]]
    assert [("First" in row, 'class="num">2<' in row, "of your own" in row) for row in rows] == [
        (True, True, False),
        (False, False, True),
    ]


def test_members_are_listed_with_their_groups():
    project = create_project("ours")
    admin = create_user("admin", project)
    create_user("auditor", project)
    page = client_for(admin).get("/projects/ours/").content.decode()
    assert all(f'<span class="tag">{group}</span>' in page for group in ("admins", "auditors"))
