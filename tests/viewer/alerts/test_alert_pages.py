"""Roles on alert rules, their form, and the parts of them that pages and the API show."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from people import client_for, create_project, create_user
from receiver import Receiver

from ingest.models import Project
from viewer.alerts import encryption
from viewer.models import Alert, AlertRule, AuditEntry

pytestmark = pytest.mark.django_db
FORM = {"name": "Lost facts", "kind": "facts_lost", "threshold": "10", "window_minutes": "60", "cooldown_minutes": "60"}


@pytest.fixture
def ours() -> Project:
    return create_project("ours")


@pytest.fixture
def hook(settings: Any) -> Iterator[Receiver]:
    settings.ALERT_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    with Receiver() as receiver:
        yield receiver


def create(user: User, hook: Receiver, **more: str) -> AlertRule:
    response = client_for(user).post("/alerts/new/", FORM | {"webhook_url": f"{hook.url}/T0/secret-path"} | more)
    assert response.status_code == 200, response.content.decode()
    return AlertRule.objects.latest("pk")


def test_the_secret_is_shown_once_and_the_address_never(ours: Project, hook: Receiver) -> None:
    """Both are encrypted in the database."""
    developer = create_user("developer", ours)
    client = client_for(developer)
    page = client.post("/alerts/new/", FORM | {"webhook_url": f"{hook.url}/T0/secret-path"}).content.decode()
    rule = AlertRule.objects.get()
    secret = encryption.decrypt(rule.webhook_secret)
    assert secret in page
    assert "secret-path" not in page
    assert "secret-path" not in rule.webhook_url
    for path in ("/alerts/", f"/alerts/{rule.pk}/", "/api/alerts/rules/", "/audit/"):
        body = client_for(create_user("admin", ours)).get(path).content.decode()
        assert secret not in body
        assert "secret-path" not in body
    renewed = client.post(f"/alerts/{rule.pk}/secret/").content.decode()
    rule.refresh_from_db()
    assert encryption.decrypt(rule.webhook_secret) in renewed
    assert encryption.decrypt(rule.webhook_secret) != secret
    assert encryption.decrypt(rule.webhook_url) == f"{hook.url}/T0/secret-path"


def test_a_test_alert_shows_its_result(ours: Project, hook: Receiver) -> None:
    developer = create_user("developer", ours)
    rule = create(developer, hook)
    client = client_for(developer)
    page = client.post(f"/alerts/{rule.pk}/test/", follow=True).content.decode()
    assert "Test sent to 127.0.0.1: HTTP 200." in page
    assert b'"is_test": true' in hook.requests[0].body
    alert = client.get("/api/alerts/").json()["results"][0]
    assert (alert["is_test"], alert["deliveries"][0]["state"]) == (True, "sent")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"webhook_url": "http://169.254.169.254/latest/meta-data"}, "private address"),
        ({"webhook_url": "ftp://example.com"}, "starts with https"),
        ({"threshold": "0"}, "greater than or equal to 1"),
        ({"kind": "near_limit", "threshold": "101"}, "from 1 to 100"),
        ({"kind": "nonsense"}, "valid choice"),
        ({"emails": "a@example.com"}, "configured on this server"),
        ({"name": ""}, "required"),
    ],
)
def test_an_invalid_rule_is_explained(change: dict[str, str], message: str, ours: Project, settings: Any) -> None:
    settings.EMAIL_HOST = ""
    settings.ALERT_NETWORKS = []
    client = client_for(create_user("developer", ours))
    page = client.post("/alerts/new/", FORM | {"webhook_url": "http://127.0.0.1/"} | change)
    assert not AlertRule.objects.exists()
    assert message in page.content.decode().replace("&#x27;", "'")


ACTIONS = ("", "toggle/", "test/", "secret/", "delete/")


def test_rules_belong_to_their_owner_and_project(ours: Project, hook: Receiver) -> None:
    """Another developer sees a rule but cannot change it. Other projects do not see it. An admin takes it over."""
    owner = create_user("developer", ours)
    rule = create(owner, hook, name="Private name")
    people = {
        "operator": (create_user("operator", ours), 200, 403),
        "auditor": (create_user("auditor", ours), 200, 403),
        "other developer": (create_user("developer", ours), 200, 403),
        "stranger": (create_user("admin", create_project("theirs")), 200, 404),
    }
    for name, (user, list_status, action_status) in people.items():
        client = client_for(user)
        page = client.get("/alerts/")
        assert page.status_code == list_status
        assert ("Private name" in page.content.decode()) is (name != "stranger")
        assert bool(client.get("/api/alerts/rules/").json()["results"]) is (name != "stranger")
        for action in ACTIONS:
            assert client.post(f"/alerts/{rule.pk}/{action}", FORM).status_code == action_status, (name, action)
    assert client_for(None).post(f"/alerts/{rule.pk}/delete/").status_code == 302
    assert AlertRule.objects.get().name == "Private name"
    assert not Alert.objects.exists()
    admin = create_user("admin", ours)
    assert client_for(admin).post(f"/alerts/{rule.pk}/", FORM).status_code == 302
    rule.refresh_from_db()
    assert (rule.created_by, rule.name, rule.webhook_host) == (admin, "Lost facts", "127.0.0.1")


def test_changes_are_audited_and_can_be_paused_and_deleted(ours: Project, hook: Receiver) -> None:
    owner = create_user("developer", ours)
    rule = create(owner, hook)
    client = client_for(owner)
    client.post(f"/alerts/{rule.pk}/toggle/")
    assert AlertRule.objects.get().is_enabled is False
    client.post(f"/alerts/{rule.pk}/toggle/")
    client.post(f"/alerts/{rule.pk}/delete/")
    assert not AlertRule.objects.exists()
    verbs = [entry.detail["verb"] for entry in AuditEntry.objects.filter(action="alert.change").order_by("position")]
    assert verbs == ["created", "paused", "resumed", "deleted"]


def test_content_needs_the_right(ours: Project, hook: Receiver) -> None:
    """A developer may include texts. The form does not offer it to others, and refuses it."""
    owner = create_user("developer", ours)
    assert create(owner, hook, includes_content="on").includes_content is True
    owner.groups.clear()
    key_only = create_user("", ours)

    key_only.user_permissions.set(Permission.objects.filter(codename__in=["view_session", "manage_own_keys"]))
    response = client_for(key_only).post("/alerts/new/", FORM | {"webhook_url": hook.url, "includes_content": "on"})
    assert AlertRule.objects.count() == 1
    assert "permission to view payloads" in response.content.decode()
