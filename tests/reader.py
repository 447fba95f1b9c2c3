"""HTTP clients that are logged in to a running server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from live_server import Server


def log_in(server: Server, role: str, **options: Any) -> httpx.Client:
    """Log in with the form of the login page, and return the client. The page after the login is not loaded."""
    client = httpx.Client(**{"base_url": server.url, "follow_redirects": True, "timeout": 60, **options})
    client.get("/login/")
    form = {**server.logins[role], "csrfmiddlewaretoken": client.cookies["csrftoken"]}
    response = client.post("/login/", data=form, headers={"Referer": f"{server.url}/login/"}, follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (302, "/")
    return client


@contextmanager
def client_of(server: Server, role: str) -> Iterator[httpx.Client]:
    client = log_in(server, role)
    try:
        yield client
    finally:
        client.close()


def cookie_header(server: Server, role: str) -> str:
    """Log in and return the Cookie header of the requests that follow."""
    with client_of(server, role) as client:
        return "; ".join(f"{name}={value}" for name, value in client.cookies.items())
