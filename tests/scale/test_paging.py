"""Pagination of sessions that changed in one commit."""

from __future__ import annotations

import json
import urllib.request

from live_server import Server
from reader import cookie_header
from scale.agent import post_events, span


def test_pages_contain_each_session_of_a_commit_once(server: Server) -> None:
    """120 sessions that arrive in one request appear once each across the pages."""
    names = {f"together-{number:03}" for number in range(120)}
    post_events(server, [span(name, "only") for name in sorted(names)])
    cookies = cookie_header(server, "operator")
    seen: list[str] = []
    address = f"{server.url}/api/sessions/?q=together-"
    while address:
        request = urllib.request.Request(address, headers={"Cookie": cookies})
        with urllib.request.urlopen(request, timeout=20) as answer:
            page = json.load(answer)
        seen += [session["id"] for session in page["results"]]
        address = page["next"]
    assert sorted(seen) == sorted(names)
