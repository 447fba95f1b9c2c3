"""Login lockout, cookies, security headers and production settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from people import client_for, create_project, create_user

from viewer.models import AuditEntry

ROOT = Path(__file__).resolve().parents[3]


def attempt(client: Client, password: str, *, name: str = "ann", address: str = "192.0.2.1"):
    return client.post("/login/", {"username": name, "password": password}, REMOTE_ADDR=address)


@pytest.fixture
def ann(db) -> User:
    return User.objects.create_user("ann", password="correct horse battery")


@pytest.mark.req("P-SEC-1")
def test_five_failed_logins_lock_the_address_out(ann: User, client: Client):
    """The user can still log in from another address. The lockout is logged."""
    assert [attempt(client, "wrong").status_code for _ in range(5)] == [200, 200, 200, 200, 429]
    assert attempt(client, "correct horse battery").status_code == 429
    assert attempt(Client(), "correct horse battery", address="192.0.2.99").status_code == 302
    assert AuditEntry.objects.filter(action="login.locked", actor="ann").exists()


def test_a_forged_forwarded_address_does_not_avoid_the_lockout(ann: User, client: Client):
    """Without a trusted proxy, X-Forwarded-For is ignored."""
    for number in range(5):
        client.post("/login/", {"username": "ann", "password": "wrong"}, HTTP_X_FORWARDED_FOR=f"203.0.113.{number}")
    response = client.post(
        "/login/", {"username": "ann", "password": "correct horse battery"}, HTTP_X_FORWARDED_FOR="203.0.113.77"
    )
    assert response.status_code == 429


def test_an_unknown_user_and_a_wrong_password_give_the_same_response(ann: User, client: Client):
    """The response does not reveal which users exist."""
    pages = [attempt(client, "wrong", name=name).content.decode() for name in ("ann", "nil")]
    errors = [re.search(r'role="alert">([^<]+)<', page) for page in pages]
    assert errors[0] and errors[1] and errors[0][1] == errors[1][1]
    # The pages differ only in the username and the CSRF token.
    assert len(pages[0]) == len(pages[1])


def test_the_admin_login_has_the_same_lockout(ann: User, client: Client):
    """Both login pages share one counter."""
    for _ in range(5):
        client.post("/admin/login/", {"username": "ann", "password": "wrong"})
    assert client.post("/admin/login/", {"username": "ann", "password": "correct horse battery"}).status_code == 429


def test_a_login_does_not_redirect_to_another_server(ann: User, client: Client):
    data = {"username": "ann", "password": "correct horse battery", "next": "https://evil.example/"}
    assert client.post("/login/", data)["Location"] == "/"


def test_a_login_changes_the_session_id(ann: User, client: Client):
    """A session id from before the login is invalid afterward."""
    client.get("/login/")
    before = client.session.session_key
    attempt(client, "correct horse battery")
    assert client.session.session_key != before
    cookie = client.cookies["sessionid"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax"


@pytest.mark.django_db
@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("path", ["/", "/login/", "/transcripts/", "/api/sessions/", "/nowhere/", "/admin/login/"])
def test_every_response_has_strict_headers(path: str):
    """No inline scripts but those with a known hash, no framing, content sniffing, shared caching or referrers."""
    response = client_for(create_user("auditor", create_project())).get(path)
    policy = {d.split()[0]: d.split()[1:] for d in response["Content-Security-Policy"].split("; ")}
    own, *hashes = policy["script-src"]
    # The theme, and what may be drawn later. Both must run before the first paint.
    assert own == "'self'" and len(hashes) == 2 and all(value.startswith("'sha256-") for value in hashes)
    assert policy["default-src"] == ["'none'"]
    assert policy["style-src"] == ["'self'"] and policy["frame-ancestors"] == ["'none'"]
    assert response["X-Frame-Options"] == "DENY" and response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "same-origin" and response["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "private" in response["Cache-Control"] or "no-cache" in response["Cache-Control"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/?q=%00", "/%00", "/api/audit/?q=a%00b", "/sessions/%00/"])
def test_nul_in_an_address_is_rejected(path: str):
    """Otherwise Postgres would fail and the response would be a 500."""
    response = client_for(create_user("auditor", create_project())).get(path)
    assert response.status_code == 400
    assert "must not contain NUL" in response.content.decode()
    assert response["Content-Type"].startswith("application/json" if path.startswith("/api/") else "text/html")


def production(tmp_path: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    names = {"ARIADNE_PRODUCTION": "1", "DATA_DIR": str(tmp_path), "ARIADNE_HOSTS": "a.example", **environment}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": "postgresql://u@h/n", "DJANGO_SETTINGS_MODULE": "ariadne.settings", **names},
        capture_output=True,
        text=True,
        check=False,
    )


DEPLOY = """
import django
django.setup()
from django.core.management import call_command
call_command("check", deploy=True, fail_level="WARNING")
"""
SHOW = """
from django.conf import settings as s
print(s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SECURE_HSTS_SECONDS, s.SESSION_COOKIE_NAME, s.TRUSTED_PROXIES)
"""


@pytest.mark.req("P-SEC-1")
def test_production_passes_the_deployment_check_of_django(tmp_path: Path):
    """Cookies are secure, and HSTS and the redirect to TLS are enabled."""
    checked = production(tmp_path, DEPLOY)
    assert checked.returncode == 0, checked.stderr
    assert production(tmp_path, SHOW).stdout.split() == ["True", "True", "31536000", "__Host-session", "1"]
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("*_key")} == {
        "secret_key": 0o600,
        "signing_key": 0o600,
    }


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"ARIADNE_DEBUG": "1"}, "ARIADNE_DEBUG=1"),
        ({"ARIADNE_OIDC_CLIENT_ID": "x"}, "ARIADNE_OIDC_CLIENT_SECRET must be set"),
        ({"ARIADNE_PROXIES": "many"}, "not an integer"),
        ({"ARIADNE_SIGNING_KEY": "short"}, "ARIADNE_SIGNING_KEY"),
    ],
)
def test_invalid_settings_stop_the_server(tmp_path: Path, environment: dict[str, str], message: str):
    """The error names the variable."""
    stopped = production(tmp_path, SHOW, **environment)
    assert stopped.returncode != 0 and message in stopped.stderr
