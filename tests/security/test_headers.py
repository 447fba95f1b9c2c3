"""Headers of every address, and which addresses need no login."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from people import client_for, create_project, create_session, create_user
from routes import OPEN, ROUTES

from ingest.http import endpoints

SECURITY = Path(__file__).resolve().parents[2] / "docs/SECURITY.md"
PAGE_HEADERS = ("Content-Security-Policy", "X-Frame-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy")
IN_FRONT = (*endpoints.PATHS, "/mcp")


def addresses(patterns: list[URLPattern | URLResolver], prefix: str = "/") -> Iterator[str]:
    """Return an address for each pattern of the URL configuration, with a session as every argument."""
    for pattern in patterns:
        path = prefix + re.sub(r"\(\?P.*?\)(?=/|\$|$)|<[^>]+>", "1", str(pattern.pattern)).strip("^$\\Z")
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, path)
        else:
            yield path


@pytest.mark.django_db
@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("person", ["anonymous", "admin", "superuser"])
def test_every_address_has_the_headers(person: str):
    """For every method that a browser sends, whether the address exists, is denied or fails."""
    project = create_project()
    create_session(project, session_id="1")
    user = User.objects.create_superuser("root") if person == "superuser" else create_user("admin", project)
    client = Client() if person == "anonymous" else client_for(user)
    # The last address logs out.
    paths = sorted({*addresses(get_resolver().url_patterns), "/nowhere/", "/%00"}, key=lambda path: path == "/logout/")
    assert len(paths) > 100
    for path in paths:
        for method in ("GET", "POST", "OPTIONS"):
            response = client.generic(method, path)
            if response.streaming:
                response.getvalue()
            where = f"{method} {path} {response.status_code}"
            assert response.status_code < 500, where
            assert response["X-Content-Type-Options"] == "nosniff", where
            assert "no-store" in response["Cache-Control"], where
            assert all(name in response for name in PAGE_HEADERS), where


@pytest.mark.req("P-SEC-1")
def test_addresses_in_front_of_django_have_the_headers(server):
    """Ingest, health, metrics and MCP, with a right and a wrong method, and a body that is too large."""
    with httpx.Client(base_url=server.url) as client:
        answers = [client.request(method, path) for path in IN_FRONT for method in ("GET", "POST")]
    for answer in answers:
        where = f"{answer.request.method} {answer.request.url.path} {answer.status_code}"
        assert answer.headers["X-Content-Type-Options"] == "nosniff", where
        assert answer.headers["Cache-Control"] == "no-store", where


@pytest.mark.req("P-SEC-1")
def test_a_request_that_is_rejected_while_it_arrives_has_the_headers(server):
    connection = HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    connection.putrequest("POST", "/ingest")
    connection.putheader("Content-Length", str(10**10))
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, answer.headers["X-Content-Type-Options"]) == (413, "nosniff")
    assert answer.headers["Cache-Control"] == "no-store"
    connection.close()


@pytest.mark.req("P-SEC-1")
def test_mcp_answers_only_its_own_host_and_origin(server):
    """A name that was rebound to this server is not its own. Clients other than browsers send no origin."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    statuses = {
        (name, value): httpx.post(f"{server.url}/mcp", json=body, headers={name: value}).status_code
        for name, value in (
            ("Host", "evil.example"),
            ("Origin", "http://evil.example"),
            ("Origin", "null"),
            ("Origin", "http://127.0.0.1:1"),
            ("Origin", server.url),
            ("Accept", "application/json"),
        )
    }
    assert list(statuses.values()) == [400, 403, 403, 403, 401, 401]


@pytest.mark.req("P-SEC-1")
def test_only_the_documented_addresses_are_open(server):
    """The addresses that answer without a login are those of docs/SECURITY.md."""
    line = next(line for line in SECURITY.read_text().splitlines() if line.startswith("Open addresses:"))
    documented = set(re.findall(r"`(/[^`]*)`", line))
    with httpx.Client(base_url=server.url) as client:
        in_front = {path for path in IN_FRONT if client.get(path).status_code == 200}
    assert documented == in_front | {route.path for route in ROUTES.values() if route.right == OPEN}


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("query", ["project=%00", "project=a%00b", "q=%00", "after=%00", "project=%ff%fe"])
def test_nul_in_the_query_of_a_websocket_closes_with_4404(server, login_as, query: str):
    """The server also closes the socket of a project whose name is no text."""
    from security.test_sockets import close_code

    cookie = login_as("developer").cookies["sessionid"]
    assert close_code(server, f"/ws/tail/?{query}", cookie=cookie, origin=server.url) == 4404
    assert close_code(server, "/ws/sessions/a%00b/", cookie=cookie, origin=server.url) == 4404
