"""Access control of websockets: origin, rights, projects and tokens."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect


def socket_url(server, path: str) -> str:
    return server.url.replace("http", "ws", 1) + path


def close_code(server, path: str, *, cookie: str = "", origin: str | None = None, bearer: str = "") -> int:
    """Return the close code, 0 if the server sends hello, or 403 if it rejects the handshake."""
    headers = {"Cookie": f"sessionid={cookie}"} if cookie else {}
    if bearer:
        headers["Authorization"] = f"Bearer {bearer}"
    try:
        with connect(socket_url(server, path), origin=origin, additional_headers=headers) as socket:
            hello = json.loads(socket.recv(timeout=20))
            return 0 if hello["type"] == "hello" else -1
    except InvalidStatus as error:
        return error.response.status_code
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else -1


SOCKETS = ("/ws/sessions/", "/ws/tail/")


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil.example"]
)
def test_a_page_of_another_origin_cannot_open_a_socket(server, login_as, path: str, origin: str):
    """This includes another port of the same host. A client that sends no origin is accepted."""
    cookie = login_as("developer").cookies["sessionid"]
    assert close_code(server, path, cookie=cookie, origin=origin) == 403
    assert close_code(server, path, cookie=cookie) == 0


def test_an_unknown_address_closes_with_4404(server):
    """The handshake succeeds, so that the client gets the close code."""
    assert close_code(server, "/ws/nothing/") == 4404


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize(
    ("role", "list_code", "tail_code"),
    [("operator", 0, 4403), ("developer", 0, 0), ("auditor", 0, 4403), ("admin", 0, 0)],
)
def test_sockets_need_the_same_rights_as_pages(server, login_as, role: str, list_code: int, tail_code: int):
    cookie = login_as(role).cookies["sessionid"]
    codes = [close_code(server, path, cookie=cookie, origin=server.url) for path in SOCKETS]
    assert codes == [list_code, tail_code]


@pytest.mark.req("P-SEC-1")
def test_unauthenticated_sockets_are_rejected(server):
    """No login, an unknown session, an ingest key, and an unknown token."""
    for path in SOCKETS:
        assert close_code(server, path, origin=server.url) == 4401
        assert close_code(server, path, origin=server.url, cookie="unknown") == 4401
        assert close_code(server, path, bearer=server.ingest_key) == 403
        assert close_code(server, path, bearer="arip_unknown") == 403


@pytest.mark.req("P-SEC-1")
def test_a_session_of_another_project_does_not_exist(server, login_as, other_project):
    """By id, by key and by project."""
    cookie = login_as("developer").cookies["sessionid"]
    for path in (
        f"/ws/sessions/{other_project.session}/",
        f"/ws/sessions/{other_project.session_key}/",
        "/ws/tail/?project=elsewhere",
        "/ws/sessions/?project=elsewhere",
    ):
        assert close_code(server, path, cookie=cookie, origin=server.url) == 4404, path


@pytest.mark.req("P-SEC-1")
def test_a_tail_gets_only_events_of_its_project(server, login_as, other_project):
    """Of an event in another project and one in its own, only the second arrives."""
    cookie = login_as("developer").cookies["sessionid"]
    ours = f"at-home-{uuid.uuid4().hex[:8]}"
    path = f"/ws/tail/?after=0&session={other_project.session}"
    with (
        connect(
            socket_url(server, "/ws/tail/"), origin=server.url, additional_headers={"Cookie": f"sessionid={cookie}"}
        ) as unfiltered,
        connect(
            socket_url(server, path), origin=server.url, additional_headers={"Cookie": f"sessionid={cookie}"}
        ) as filtered,
    ):
        unfiltered.recv(timeout=20), filtered.recv(timeout=20)
        span: dict[str, Any] = {"type": "span", "span_id": uuid.uuid4().hex, "kind": "tool", "name": "x"}
        other_event = {**span, "trace_id": "t-elsewhere", "data": {"session_id": other_project.session}}
        own_event = {**span, "trace_id": f"t-{ours}", "data": {"session_id": ours}}
        httpx.post(
            server.ingest_url, json=other_event, headers={"Authorization": f"Bearer {other_project.key}"}, timeout=30
        )
        httpx.post(server.ingest_url, json=own_event, headers=server.headers, timeout=30)
        frames = [unfiltered.recv(timeout=20)]
        while ours not in frames[-1]:
            frames.append(unfiltered.recv(timeout=20))
        assert not any("elsewhere" in frame for frame in frames)
        with pytest.raises(TimeoutError):
            # A heartbeat arrives every ten seconds.
            while json.loads(filtered.recv(timeout=0.3))["type"] == "beat":
                pass


@pytest.mark.req("P-SEC-1", "K-UI-2")
def test_a_token_with_the_scope_opens_a_tail(server, login_as):
    """`compactctl tail` sends no origin and no cookie. A token without the scope is rejected."""
    developer = login_as("developer")
    page = developer.get("/tokens/").text
    csrf = page.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
    for scopes, code in ((["view_tail"], 0), (["view_session"], 4403)):
        data = {"label": "tail", "scopes": scopes, "csrfmiddlewaretoken": csrf}
        response = developer.post("/tokens/", data=data, headers={"Referer": server.url}).text
        token = response.split('data-testid="secret">')[1].split("<")[0]
        assert close_code(server, "/ws/tail/", bearer=token) == code
