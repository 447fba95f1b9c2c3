"""Signing in: guessing is slowed down, cookies are guarded, headers are strict, production is stricter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from people import person, project, signed_in

from viewer.models import AuditEntry

ROOT = Path(__file__).resolve().parents[3]


def attempt(client: Client, password: str, *, name: str = "ann", address: str = "192.0.2.1"):
    return client.post("/login/", {"username": name, "password": password}, REMOTE_ADDR=address)


@pytest.fixture
def ann(db) -> User:
    return User.objects.create_user("ann", password="correct horse battery")


@pytest.mark.req("P-SEC-1")
def test_after_five_failures_even_the_right_password_is_refused(ann: User, client: Client):
    """From that address; the owner elsewhere gets in; the log has the lockout."""
    assert [attempt(client, "wrong").status_code for _ in range(5)] == [200, 200, 200, 200, 429]
    assert attempt(client, "correct horse battery").status_code == 429
    assert attempt(Client(), "correct horse battery", address="192.0.2.99").status_code == 302
    assert AuditEntry.objects.filter(action="login.locked", actor="ann").exists()


def test_a_forged_forwarded_address_does_not_escape_the_lock(ann: User, client: Client):
    """Without a proxy of ours in front, X-Forwarded-For is somebody's fancy."""
    for number in range(5):
        client.post("/login/", {"username": "ann", "password": "wrong"}, HTTP_X_FORWARDED_FOR=f"203.0.113.{number}")
    response = client.post(
        "/login/", {"username": "ann", "password": "correct horse battery"}, HTTP_X_FORWARDED_FOR="203.0.113.77"
    )
    assert response.status_code == 429


def test_an_unknown_name_and_a_wrong_password_look_the_same(ann: User, client: Client):
    """Nobody learns which names exist."""
    pages = [attempt(client, "wrong", name=name).content.decode() for name in ("ann", "nil")]
    said = [re.search(r'role="alert">([^<]+)<', page) for page in pages]
    assert said[0] and said[1] and said[0][1] == said[1][1]
    # The one difference besides the name typed in is the random token against forged requests.
    assert len(pages[0]) == len(pages[1])


def test_the_administration_has_the_same_lock(ann: User, client: Client):
    """One count for both doors."""
    for _ in range(5):
        client.post("/admin/login/", {"username": "ann", "password": "wrong"})
    assert client.post("/admin/login/", {"username": "ann", "password": "correct horse battery"}).status_code == 429


def test_a_login_does_not_send_people_elsewhere(ann: User, client: Client):
    """`next` stays on this server."""
    data = {"username": "ann", "password": "correct horse battery", "next": "https://evil.example/"}
    assert client.post("/login/", data)["Location"] == "/"


def test_a_new_login_gets_a_new_session(ann: User, client: Client):
    """A session id planted before the login is worth nothing after it."""
    client.get("/login/")
    before = client.session.session_key
    attempt(client, "correct horse battery")
    assert client.session.session_key != before
    cookie = client.cookies["sessionid"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax"


@pytest.mark.django_db
@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("path", ["/", "/login/", "/transcripts/", "/api/sessions/", "/nowhere/", "/admin/login/"])
def test_every_answer_has_strict_headers(path: str):
    """No inline script, no framing, no sniffing, no shared caching, no leaking of addresses."""
    response = signed_in(person("auditor", project())).get(path)
    policy = {d.split()[0]: d.split()[1:] for d in response["Content-Security-Policy"].split("; ")}
    assert policy["script-src"] == ["'self'"] and policy["default-src"] == ["'none'"]
    assert policy["style-src"] == ["'self'"] and policy["frame-ancestors"] == ["'none'"]
    assert response["X-Frame-Options"] == "DENY" and response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "same-origin" and response["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "private" in response["Cache-Control"] or "no-cache" in response["Cache-Control"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/?q=%00", "/%00", "/api/audit/?q=a%00b", "/sessions/%00/"])
def test_nul_is_refused_at_the_door(path: str):
    """Postgres would answer with an error of ours."""
    assert signed_in(person("auditor", project())).get(path).status_code == 400


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
def test_production_passes_djangos_own_deployment_check(tmp_path: Path):
    """Secure cookies, HSTS, redirect to TLS; the check knows the rest."""
    checked = production(tmp_path, DEPLOY)
    assert checked.returncode == 0, checked.stderr
    assert production(tmp_path, SHOW).stdout.split() == ["True", "True", "31536000", "__Host-session", "1"]
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("*_key")} == {
        "secret_key": 0o600,
        "signing_key": 0o600,
    }


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"ARIADNE_DEBUG": "1"}, "ARIADNE_DEBUG=1"),
        ({"ARIADNE_OIDC_CLIENT_ID": "x"}, "ARIADNE_OIDC_CLIENT_SECRET must be set"),
        ({"ARIADNE_PROXIES": "many"}, "not an integer"),
        ({"ARIADNE_SIGNING_KEY": "short"}, "ARIADNE_SIGNING_KEY"),
    ],
)
def test_settings_that_make_no_sense_stop_the_server(tmp_path: Path, environment: dict[str, str], said: str):
    """With the name of the variable."""
    stopped = production(tmp_path, SHOW, **environment)
    assert stopped.returncode != 0 and said in stopped.stderr
