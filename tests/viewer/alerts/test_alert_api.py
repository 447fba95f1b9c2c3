"""Alert rules over REST: roles, validation, secrets, and the alerts that people without a webhook see."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from people import client_for, create_project, create_session, create_user

from ingest.cells import cells_of
from ingest.models import Project
from viewer.accounts import api_tokens
from viewer.accounts.access import Right
from viewer.alerts import encryption
from viewer.models import Alert, AlertRule, AuditEntry

pytestmark = pytest.mark.django_db
RULES = "/api/alerts/rules/"
RULE = {"project": "ours", "name": "Lost facts", "kind": "facts_lost", "threshold": 10}
JSON = "application/json"


@pytest.fixture
def ours() -> Project:
    return create_project("ours")


def create(user: User, **more: Any) -> int:
    response = client_for(user).post(RULES, RULE | more, content_type=JSON)
    assert response.status_code == 201, response.content
    return int(response.json()["id"])


def test_a_rule_is_created_changed_paused_and_deleted(ours: Project, settings: Any) -> None:
    """Fields that a change does not name stay. Only the answer that creates a webhook has its secret."""
    settings.ALERT_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    client = client_for(create_user("developer", ours))
    created = client.post(RULES, RULE | {"webhook_url": "http://127.0.0.1:9/T0/path"}, content_type=JSON).json()
    rule = AlertRule.objects.get()
    assert created["webhook_secret"] == encryption.decrypt(rule.webhook_secret)
    assert (created["webhook_host"], created["cooldown_minutes"], created["is_enabled"]) == ("127.0.0.1", 60, True)
    address = f"{RULES}{rule.pk}/"
    changed = client.patch(address, {"threshold": 30, "is_enabled": False}, content_type=JSON).json()
    assert (changed["threshold"], changed["is_enabled"], changed["webhook_secret"]) == (30, False, None)
    assert (changed["name"], changed["webhook_host"]) == ("Lost facts", "127.0.0.1")
    assert client.get(address).json()["threshold"] == 30
    assert "path" not in client.get(RULES).content.decode()
    client.patch(address, {"is_enabled": True, "removes_webhook": True}, content_type=JSON)
    rule.refresh_from_db()
    assert (rule.is_enabled, rule.webhook_host, rule.threshold) == (True, "", 30)
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    verbs = [entry.detail["verb"] for entry in AuditEntry.objects.filter(action="alert.change").order_by("position")]
    assert verbs == ["created", "changed", "paused", "changed", "resumed", "deleted"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"threshold": 0}, "threshold"),
        ({"kind": "nonsense"}, "kind"),
        ({"webhook_url": "http://169.254.169.254/"}, "webhook_url"),
        ({"emails": ["a@example.com"]}, "emails"),
        ({"project": "theirs"}, "project"),
        ({"limit": 3}, "limit"),
    ],
)
def test_an_invalid_rule_is_explained(change: dict[str, Any], name: str, ours: Project, settings: Any) -> None:
    settings.EMAIL_HOST = ""
    settings.ALERT_NETWORKS = []
    create_project("theirs")
    response = client_for(create_user("developer", ours)).post(RULES, RULE | change, content_type=JSON)
    assert response.status_code == 400
    assert name in response.json()
    assert not AlertRule.objects.exists()


def test_roles(ours: Project) -> None:
    """Owners and admins change a rule, others of the project read it, and for everyone else it does not exist."""
    address = f"{RULES}{create(create_user('developer', ours))}/"
    people = {
        "operator": (create_user("operator", ours), 403, 403, 200),
        "auditor": (create_user("auditor", ours), 403, 403, 200),
        "other developer": (create_user("developer", ours), 201, 403, 200),
        "stranger": (create_user("admin", create_project("theirs")), 400, 404, 404),
    }
    for name, (user, post, change, read) in people.items():
        client = client_for(user)
        assert client.post(RULES, RULE, content_type=JSON).status_code == post, name
        assert client.patch(address, {"threshold": 1}, content_type=JSON).status_code == change, name
        assert client.delete(address).status_code == change, name
        assert client.get(address).status_code == read, name
    anonymous = client_for(None)
    assert anonymous.get(address).status_code in {401, 403}
    assert anonymous.delete(address).status_code in {401, 403}
    admin = create_user("admin", ours)
    assert client_for(admin).patch(address, {"threshold": 7}, content_type=JSON).json()["threshold"] == 7
    assert AlertRule.objects.get(pk=int(address.split("/")[-2])).created_by == admin


def test_api_tokens_cannot_change_rules(ours: Project) -> None:
    owner = create_user("developer", ours)
    address = f"{RULES}{create(owner)}/"
    _, secret = api_tokens.create(owner, label="t", scopes=list(Right))
    headers = {"authorization": f"Bearer {secret}"}
    client = client_for(None)
    assert client.get(address, headers=headers).status_code == 200
    assert client.post(RULES, RULE, content_type=JSON, headers=headers).status_code == 403
    assert client.patch(address, {"threshold": 1}, content_type=JSON, headers=headers).status_code == 403
    assert client.delete(address, headers=headers).status_code == 403


def test_alerts_are_on_the_home_page_of_their_project(ours: Project) -> None:
    """Also for people without a webhook. Tests and old alerts are left out."""
    theirs = create_project("theirs")
    session = create_session(ours, session_id="lossy")
    entry = {"key": str(session.session_key), "id": "lossy", "value": 69, "count": 1, "span": ""}
    for project, title, more in (
        (ours, "A compaction lost 69 facts", {"sessions": [entry]}),
        (ours, "An old alert", {"fired_at": timezone.now() - timedelta(days=2)}),
        (ours, "A test", {"is_test": True}),
        (theirs, "A secret of theirs", {}),
    ):
        rule = AlertRule.objects.create(project=project, name="Lost facts", kind="facts_lost", threshold=10)
        Alert.objects.create(cell=cells_of(project.pk)[0], rule=rule, title=title, **more)
    page = client_for(create_user("operator", ours)).get("/").content.decode()
    assert "A compaction lost 69 facts" in page
    assert f"/sessions/{session.session_key}/" in page
    for hidden in ("An old alert", "A test", "A secret of theirs"):
        assert hidden not in page
