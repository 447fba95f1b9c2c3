"""A person reading over HTTP: a client that has signed in at a running server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from live_server import Server


@contextmanager
def client_of(server: Server, person: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, follow_redirects=True, timeout=30) as client:
        client.get("/login/")
        login = {**server.logins[person], "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        answer = client.post("/login/", data=login, headers={"Referer": f"{server.url}/login/"})
        assert answer.status_code == 200
        yield client
