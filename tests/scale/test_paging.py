"""Paging through sessions that one commit changed together."""

from __future__ import annotations

import json
import urllib.request

from live_server import Server
from scale.agent import span, tell
from scale.watch import sign_in


def test_sessions_of_one_commit_are_all_in_the_pages(server: Server) -> None:
    """A hundred and twenty sessions arrive in one request; page by page each is seen once."""
    names = {f"together-{number:03}" for number in range(120)}
    tell(server, [span(name, "only") for name in sorted(names)])
    cookies = sign_in(server.url, server.logins["operator"])
    seen: list[str] = []
    address = f"{server.url}/api/sessions/?q=together-"
    while address:
        request = urllib.request.Request(address, headers={"Cookie": cookies})
        with urllib.request.urlopen(request, timeout=20) as answer:
            page = json.load(answer)
        seen += [session["id"] for session in page["results"]]
        address = page["next"]
    assert sorted(seen) == sorted(names)
