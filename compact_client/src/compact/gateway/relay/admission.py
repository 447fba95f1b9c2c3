"""Decide which requests the gateway takes: those of agents, not those of web pages, and only with the token."""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

from compact.gateway.http1.heads import RequestHead
from compact.gateway.relay.credentials import TOKEN_HEADER
from compact.gateway.relay.local_pages import LocalAnswer
from compact.gateway.settings import GatewaySettings, is_loopback
from compact.gateway.upstreams import Route


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not forwarded."""

    status: int
    reason: str
    message: str

    def answer(self) -> LocalAnswer:
        """Return the answer."""
        error = {"error": {"type": self.reason, "message": f"Ariadne gateway: {self.message}"}}
        return LocalAnswer(self.status, json.dumps(error).encode())


def admit(settings: GatewaySettings, head: RequestHead, route: Route) -> Refusal | None:
    """Return the reason to refuse a request, or None."""
    if head.method == "CONNECT" or not head.target.startswith("/"):
        return Refusal(400, "bad_request", "Use the gateway as a base URL, not as a proxy.")
    if [name for name, _ in head.headers].count("host") != 1:
        return Refusal(400, "bad_request", "A request needs one Host header.")
    if _is_of_web_page(head):
        return Refusal(403, "web_page", "Requests from web pages are not accepted.")
    if route.name == "healthz":
        return None
    if settings.token:
        token = route.token or head.value(TOKEN_HEADER)
        if not hmac.compare_digest(token.encode(), settings.token.encode()):
            return Refusal(401, "token", "The token is missing or wrong. Send it as /token/TOKEN/… or X-Ariadne-Token.")
        return None
    # A web page can give its own name the address 127.0.0.1 (DNS rebinding), but it cannot hide that name.
    if not is_loopback(_host_name(head.value("host"))):
        return Refusal(403, "host", "The Host is not a name of this machine. Other names need --token.")
    return None


def _is_of_web_page(head: RequestHead) -> bool:
    origin = head.value("origin")
    if origin == "null" or urlsplit(origin).scheme in {"http", "https"}:
        return True
    return head.value("sec-fetch-site") in {"cross-site", "same-site", "same-origin"}


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
