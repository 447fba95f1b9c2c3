"""Websockets let in whom pages let in, from our own pages alone, and only into their own projects."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect


def address(server, path: str) -> str:
    return server.url.replace("http", "ws", 1) + path


def closing_code(server, path: str, *, cookie: str = "", origin: str | None = None, bearer: str = "") -> int:
    """With which code the server ends this socket; 0 if it says hello instead, 403 if it refuses the handshake."""
    headers = {"Cookie": f"sessionid={cookie}"} if cookie else {}
    if bearer:
        headers["Authorization"] = f"Bearer {bearer}"
    try:
        with connect(address(server, path), origin=origin, additional_headers=headers) as socket:
            hello = json.loads(socket.recv(timeout=20))
            return 0 if hello["type"] == "hello" else -1
    except InvalidStatus as refused:
        return refused.response.status_code
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else -1


SOCKETS = ("/ws/sessions/", "/ws/tail/")


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil.example"]
)
def test_a_page_of_somebody_elses_cannot_open_a_socket_with_our_cookies(server, as_person, path: str, origin: str):
    """Not even one on another port of the same host. A program, which names no origin, can."""
    cookie = as_person("developer").cookies["sessionid"]
    assert closing_code(server, path, cookie=cookie, origin=origin) == 403
    assert closing_code(server, path, cookie=cookie) == 0


def test_an_address_without_a_socket_is_refused(server):
    """As one that does not exist; the handshake does not fail."""
    assert closing_code(server, "/ws/nothing/") == 4404


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize(
    ("person", "list_code", "tail_code"),
    [("operator", 0, 4403), ("developer", 0, 0), ("auditor", 0, 4403), ("admin", 0, 0)],
)
def test_sockets_ask_for_the_same_rights_as_pages(server, as_person, person: str, list_code: int, tail_code: int):
    """From our own origin."""
    cookie = as_person(person).cookies["sessionid"]
    codes = [closing_code(server, path, cookie=cookie, origin=server.url) for path in SOCKETS]
    assert codes == [list_code, tail_code]


@pytest.mark.req("P-SEC-1")
def test_nobody_hears_nothing(server):
    """Without a login, with a made-up session, with an ingest key, with a made-up token."""
    for path in SOCKETS:
        assert closing_code(server, path, origin=server.url) == 4401
        assert closing_code(server, path, origin=server.url, cookie="made-up") == 4401
        assert closing_code(server, path, bearer=server.ingest_key) == 403
        assert closing_code(server, path, bearer="arip_made-up") == 403


@pytest.mark.req("P-SEC-1")
def test_another_projects_session_cannot_be_followed(server, as_person, elsewhere):
    """By id, by key, by project: it does not exist."""
    cookie = as_person("developer").cookies["sessionid"]
    for path in (
        f"/ws/sessions/{elsewhere.session}/",
        f"/ws/sessions/{elsewhere.session_key}/",
        "/ws/tail/?project=elsewhere",
        "/ws/sessions/?project=elsewhere",
    ):
        assert closing_code(server, path, cookie=cookie, origin=server.url) == 4404, path


@pytest.mark.req("P-SEC-1")
def test_a_tail_hears_only_its_own_project(server, as_person, elsewhere):
    """An event elsewhere, then one at home: only the second arrives, whatever is asked for."""
    cookie = as_person("developer").cookies["sessionid"]
    ours = f"at-home-{uuid.uuid4().hex[:8]}"
    path = f"/ws/tail/?after=0&session={elsewhere.session}"
    with (
        connect(
            address(server, "/ws/tail/"), origin=server.url, additional_headers={"Cookie": f"sessionid={cookie}"}
        ) as all_of_it,
        connect(
            address(server, path), origin=server.url, additional_headers={"Cookie": f"sessionid={cookie}"}
        ) as filtered,
    ):
        all_of_it.recv(timeout=20), filtered.recv(timeout=20)
        span: dict[str, Any] = {"type": "span", "span_id": uuid.uuid4().hex, "kind": "tool", "name": "x"}
        there = {**span, "trace_id": "t-elsewhere", "data": {"session_id": elsewhere.session}}
        here = {**span, "trace_id": f"t-{ours}", "data": {"session_id": ours}}
        httpx.post(server.ingest_url, json=there, headers={"Authorization": f"Bearer {elsewhere.key}"}, timeout=30)
        httpx.post(server.ingest_url, json=here, headers=server.headers, timeout=30)
        frames = [all_of_it.recv(timeout=20)]
        while ours not in frames[-1]:
            frames.append(all_of_it.recv(timeout=20))
        assert not any("elsewhere" in frame for frame in frames)
        with pytest.raises(TimeoutError):
            filtered.recv(timeout=0.3)


@pytest.mark.req("P-SEC-1", "K-UI-2")
def test_a_token_follows_without_a_browser(server, as_person):
    """No origin, no cookie: that is how `compactctl tail` comes; without the scope it may not."""
    person = as_person("developer")
    page = person.get("/tokens/").text
    csrf = page.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
    for scopes, code in ((["view_tail"], 0), (["view_session"], 4403)):
        data = {"label": "tail", "scopes": scopes, "csrfmiddlewaretoken": csrf}
        made = person.post("/tokens/", data=data, headers={"Referer": server.url}).text
        token = made.split('data-testid="secret">')[1].split("<")[0]
        assert closing_code(server, "/ws/tail/", bearer=token) == code
