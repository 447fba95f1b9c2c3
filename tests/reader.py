"""HTTP clients that are logged in to a running server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from live_server import Server


@contextmanager
def client_of(server: Server, role: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, follow_redirects=True, timeout=30) as client:
        client.get("/login/")
        login = {**server.logins[role], "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        response = client.post("/login/", data=login, headers={"Referer": f"{server.url}/login/"})
        assert response.status_code == 200
        yield client
