"""Single sign-on with a test provider over real HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import psycopg
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from viewer.accounts.sso import Backend


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Provider(ThreadingHTTPServer):
    """A minimal OpenID provider. `claims` describe the user who logs in."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.signing_key = self.key
        self.claims: dict[str, Any] = {}
        self.nonce = ""

    def id_token(self) -> str:
        now = int(time.time())
        head = {"alg": "RS256", "kid": "k", "typ": "JWT"}
        claims = {"iss": self.url, "aud": "ariadne", "iat": now, "exp": now + 60, "nonce": self.nonce, **self.claims}
        signed = ".".join(b64(json.dumps(part).encode()) for part in (head, claims))
        return f"{signed}.{b64(self.signing_key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def jwks(self) -> dict[str, Any]:
        numbers = self.key.public_key().public_numbers()
        parts = {"n": b64(numbers.n.to_bytes(256, "big")), "e": b64(numbers.e.to_bytes(3, "big"))}
        return {"keys": [{"kty": "RSA", "kid": "k", "alg": "RS256", "use": "sig", **parts}]}


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/authorize":
            self.server.nonce = query["nonce"]
            assert query["code_challenge_method"] == "S256"
            self.send_response(302)
            query_string = urlencode({"code": "c", "state": query["state"]})
            self.send_header("Location", f"{query['redirect_uri']}?{query_string}")
            self.end_headers()
        else:
            self._json(self.server.jwks() if parts.path == "/jwks" else self.server.claims)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._json({"access_token": "a", "token_type": "Bearer", "id_token": self.server.id_token()})

    def _json(self, content: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    server = Provider()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def log_in(url: str) -> tuple[httpx.Response, bool]:
    """Log in with single sign-on. Return the page, and True if the user is logged in."""
    with httpx.Client(base_url=url, follow_redirects=True, timeout=30) as browser:
        assert "/oidc/authenticate/" in browser.get("/login/").text
        page = browser.get("/oidc/authenticate/")
        assert page.status_code < 500
        return page, browser.get("/tokens/").url.path == "/tokens/"


@pytest.mark.req("P-SEC-1")
def test_single_sign_on(start_server, provider: Provider):
    """A new user has no project, cannot take over a local account, and gets the groups of the claim."""
    server = start_server(
        "sso",
        ARIADNE_OIDC_CLIENT_ID="ariadne",
        ARIADNE_OIDC_CLIENT_SECRET="s3cret",
        ARIADNE_OIDC_AUTHORIZATION_URL=f"{provider.url}/authorize",
        ARIADNE_OIDC_TOKEN_URL=f"{provider.url}/token",
        ARIADNE_OIDC_USER_URL=f"{provider.url}/user",
        ARIADNE_OIDC_JWKS_URL=f"{provider.url}/jwks",
        ARIADNE_OIDC_GROUPS_CLAIM="groups",
    )
    provider.claims = {
        "sub": "42",
        "preferred_username": "admin",
        "email": "admin@example.com",
        "groups": ["auditors", "wheel"],
    }
    page, is_logged_in = log_in(server.url)
    assert is_logged_in and page.status_code == 403, "logged in, but in no project yet"
    with psycopg.connect(server.database_url) as database:
        users = database.execute("SELECT username, is_superuser, is_staff FROM auth_user ORDER BY id DESC").fetchall()
        groups = database.execute(
            "SELECT g.name FROM auth_group g JOIN auth_user_groups x ON x.group_id = g.id"
            " JOIN auth_user u ON u.id = x.user_id WHERE u.username = 'sso:42'"
        ).fetchall()
        assert users[0] == ("sso:42", False, False) and len(users) == 5
        assert groups == [("auditors",)]
    provider.claims = {"sub": "42", "groups": []}
    assert log_in(server.url)[1]
    with psycopg.connect(server.database_url) as database:
        assert database.execute("SELECT count(*) FROM auth_user WHERE username LIKE 'sso:%'").fetchone() == (1,)
        remaining = database.execute(
            "SELECT count(*) FROM auth_user_groups x JOIN auth_user u ON u.id = x.user_id WHERE username = 'sso:42'"
        )
        assert remaining.fetchone() == (0,), "a group that is removed at the provider is removed here"
    for claims in ({}, {"sub": "43", "email_verified": False}):
        provider.claims = claims
        page, is_logged_in = log_in(server.url)
        assert not is_logged_in and "Single sign-on failed" in page.text, claims
    provider.claims = {"sub": "44"}
    provider.signing_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert not log_in(server.url)[1], "signed with another key"


@pytest.fixture
def backend(settings: Any) -> Backend:
    for name in ("RP_CLIENT_ID", "RP_CLIENT_SECRET", "OP_TOKEN_ENDPOINT", "OP_USER_ENDPOINT", "OP_JWKS_ENDPOINT"):
        setattr(settings, f"OIDC_{name}", "https://provider.example")
    settings.OIDC_RP_SIGN_ALGO = "RS256"
    settings.OIDC_GROUPS_CLAIM = "groups"
    return Backend()


@pytest.mark.django_db
@pytest.mark.req("P-SEC-1")
def test_subjects_never_share_an_account(backend: Backend):
    """They may be long, differ in control characters only, or look like another account."""
    long = "x" * 200
    digest = hashlib.sha256(f"{long}a".encode()).hexdigest()
    subjects = ["42", "42\x00", "42\n", " 42", f"{long}a", f"{long}b", f"sha256:{digest}", "\ud800", "Åsa", "auth0|42"]
    users = [backend.create_user({"sub": subject}) for subject in subjects]
    assert len({user.pk for user in users}) == len(subjects)
    for user, subject in zip(users, subjects, strict=True):
        assert list(backend.filter_users_by_claims({"sub": subject})) == [user]
        assert user.username.startswith("sso:") and user.username.isprintable() and len(user.username) <= 150
    assert users[0].username == "sso:42" and users[-1].username == "sso:auth0|42"


@pytest.mark.django_db
@pytest.mark.req("P-SEC-1")
def test_hostile_claims_are_cleaned_or_refused(backend: Backend):
    """A name is one line of text, and a claim of another type than expected is no error and no right."""
    claims = {
        "sub": "hostile",
        "name": "Ann\x00\nroot\u2028\x1b[31m<script>",
        "email": "a\x00@b.example\n",
        "groups": [{"a": 1}, ["admins"], None, "root", "operators"],
    }
    user = backend.create_user(claims)
    assert user.first_name.isprintable() and user.first_name.startswith("Ann")
    assert user.email.isprintable()
    assert list(user.groups.values_list("name", flat=True)) == ["operators"]
    for name, value in (("groups", "admins"), ("groups", {"admins": True}), ("name", ["x"]), ("email", 5)):
        user = backend.update_user(user, {**claims, name: value})
        assert "admins" not in user.groups.values_list("name", flat=True)
    for subject in (None, "", 42, True, ["42"], {"sub": "42"}):
        assert not backend.verify_claims({"sub": subject})
    assert not backend.verify_claims({"sub": "42", "email_verified": "false"})
