"""Custom redaction rules: validation, access, audit and the trial."""

from __future__ import annotations

import pytest
from people import client_for, create_project, create_user

from ingest.decoding.door.project_rules import MAX_RULES
from ingest.models import RedactionRule
from viewer.models import AuditEntry

pytestmark = pytest.mark.django_db

PATTERN = {"kind": "pattern", "name": "badge", "value": r"BADGE-\d{4}", "reason": "case 7"}


def rules(slug: str) -> list[str]:
    return [rule.value for rule in RedactionRule.objects.filter(project__slug=slug).order_by("pk")]


@pytest.mark.req("S-RED-1")
def test_rules_are_added_and_removed_with_a_reason_and_logged():
    ours, theirs = create_project("ours"), create_project("theirs")
    admin = client_for(create_user("admin", ours, name="ann"))
    assert "No patterns." in admin.get("/projects/ours/redaction/").content.decode()
    page = admin.post("/projects/ours/redaction/add/", PATTERN, follow=True).content.decode()
    assert "BADGE-" in page and "ann" in page
    admin.post("/projects/ours/redaction/add/", {"kind": "allow", "value": "*@example.com", "reason": "docs"})
    assert rules("ours") == [r"BADGE-\d{4}", "*@example.com"] and rules("theirs") == []
    first = RedactionRule.objects.get(name="badge")
    admin.post(f"/projects/ours/redaction/{first.pk}/remove/", {})
    assert len(rules("ours")) == 2
    admin.post(f"/projects/ours/redaction/{first.pk}/remove/", {"reason": "not needed"})
    assert rules("ours") == ["*@example.com"]
    entries = AuditEntry.objects.filter(action="redaction.change", project_id=ours.pk).order_by("position")
    assert [(entry.detail["verb"], entry.reason) for entry in entries] == [
        ("added", "case 7"),
        ("added", "docs"),
        ("removed", "not needed"),
    ]
    assert "custom rule" in admin.get("/projects/ours/").content.decode()
    assert theirs.redaction_rules.count() == 0


@pytest.mark.req("P-SEC-1")
def test_only_managers_of_the_project_see_and_change_its_rules():
    ours, theirs = create_project("ours"), create_project("theirs")
    rule = RedactionRule.objects.create(project=ours, kind="pattern", name="badge", value="SECRET-CODENAME")
    stranger, operator = client_for(create_user("admin", theirs)), client_for(create_user("operator", ours))
    for client, status in ((stranger, 404), (operator, 403)):
        assert client.get("/projects/ours/redaction/").status_code == status
        assert client.post("/projects/ours/redaction/add/", PATTERN).status_code == status
        assert client.post(f"/projects/ours/redaction/{rule.pk}/remove/", {"reason": "x"}).status_code == status
    # A rule of another project cannot be removed through one's own.
    assert stranger.post(f"/projects/theirs/redaction/{rule.pk}/remove/", {"reason": "x"}).status_code == 404
    assert rules("ours") == ["SECRET-CODENAME"] and rules("theirs") == []


@pytest.mark.req("S-RED-1")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"value": "(unclosed"}, "The pattern is invalid"),
        ({"value": r"(a)\1"}, "RE2 syntax"),
        ({"value": "a*"}, "matches the empty text"),
        ({"name": "Bad Name"}, "lowercase letters"),
        ({"name": "password"}, "built-in rule"),
        ({"reason": " "}, "Enter a reason"),
        ({"value": "x" * 501}, "at most 500"),
        ({"kind": "allow", "value": "password"}, "can&#x27;t be turned off"),
        ({"kind": "allow", "value": "***"}, "at least 4 characters"),
    ],
)
def test_an_invalid_rule_is_explained_and_kept_in_the_form(change: dict[str, str], problem: str):
    admin = client_for(create_user("admin", create_project("ours")))
    response = admin.post("/projects/ours/redaction/add/", {**PATTERN, **change})
    assert response.status_code == 400 and problem in response.content.decode()
    assert rules("ours") == [] and not AuditEntry.objects.filter(action="redaction.change").exists()


def test_duplicates_and_too_many_rules_are_rejected():
    ours = create_project("ours")
    admin = client_for(create_user("admin", ours))
    admin.post("/projects/ours/redaction/add/", PATTERN)
    for change in ({}, {"name": "other"}, {"value": "other-value"}):
        assert admin.post("/projects/ours/redaction/add/", {**PATTERN, **change}).status_code == 400
    for number in range(MAX_RULES - 1):
        RedactionRule.objects.create(project=ours, kind="allow", value=f"text-{number}")
    answer = admin.post("/projects/ours/redaction/add/", {**PATTERN, "name": "more", "value": "more"})
    assert f"at most {MAX_RULES} rules" in answer.content.decode()


@pytest.mark.req("S-RED-1")
def test_a_trial_shows_what_would_be_stored_and_keeps_nothing():
    ours, theirs = create_project("ours"), create_project("theirs")
    RedactionRule.objects.create(project=ours, kind="pattern", name="badge", value=r"BADGE-\d{4}")
    RedactionRule.objects.create(project=ours, kind="allow", value="*@example.com")
    RedactionRule.objects.create(project=theirs, kind="pattern", name="codename", value="Nightjar")
    admin = client_for(create_user("admin", ours))
    sample = "BADGE-4711 of bob@example.com and ann@corp.org, Nightjar, room 12 <b>"
    page = admin.post("/projects/ours/redaction/try/", {"sample": sample, "pattern": r"room \d+"}).content.decode()
    result = page.partition('data-testid="try-result"')[2]
    assert "&lt;REDACTED&gt; of bob@example.com and &lt;REDACTED&gt;, Nightjar, &lt;REDACTED&gt; &lt;b&gt;" in result
    assert all(name in result for name in ("badge 1", "email 1", "new_pattern 1"))
    assert admin.post("/projects/ours/redaction/try/", {"sample": "x", "pattern": "("}).status_code == 400
    assert not AuditEntry.objects.filter(action="redaction.change").exists()
