"""The addresses of the gateway itself: health, metrics, status, and what `compactctl run` asks."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from compact.gateway.http1.heads import RequestHead
from compact.gateway.relay.metrics import process_figures
from compact.gateway.upstreams import Route

if TYPE_CHECKING:
    from compact.gateway.relay.process import Relay

SERVICE = "ariadne-gateway"


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """An answer of the gateway. The connection is closed after it, unless it is a lease."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    lease: str = ""
    """The label of a client that holds the connection open for as long as its agent runs."""
    options: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the bytes of the answer. A lease has no end."""
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if not self.lease:
            lines += [f"Content-Type: {self.content_type}", f"Content-Length: {len(self.body)}"]
        lines += ["Connection: close", "", ""]
        return "\r\n".join(lines).encode() + self.body


class LocalPages:
    """Answers by name."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._started_at = time.time()
        self._pages = {
            "healthz": self._health,
            "metrics": self._metrics,
            "status": self._status,
            "lease": self._lease,
            "sessions": self._session,
        }

    def answer(self, head: RequestHead, route: Route) -> LocalAnswer:
        """Return the answer to a request that is for no upstream."""
        page = self._pages.get(route.name)
        if page is None:
            names = ", ".join(sorted(self._relay.settings.upstreams))
            message = f"Ariadne gateway: There is no upstream {route.name!r}. Known upstreams: {names}."
            return _json({"error": {"type": "unknown_upstream", "message": message}}, status=404)
        if head.method not in {"GET", "HEAD"}:
            return _json({"error": {"type": "method", "message": "Ariadne gateway: Use GET."}}, status=405)
        answer = page(route.rest)
        return answer if head.method == "GET" else LocalAnswer(answer.status, b"")

    def _health(self, rest: str) -> LocalAnswer:
        return _json({"status": "draining" if self._relay.is_draining else "ok", "service": SERVICE})

    def _metrics(self, rest: str) -> LocalAnswer:
        relay = self._relay
        queue = relay.recorder.queue
        figures = {
            "connections": len(relay.connections),
            "gaps_total": queue.gaps_total,
            "gap_bytes_total": queue.dropped_bytes_total,
            "frames_total": queue.frames_total,
            "queue_bytes": queue.size,
            "recorder_restarts_total": relay.recorder.restarts_total,
            "compactor_restarts_total": relay.compactor.restarts_total,
            **process_figures(),
            **{f"recorder_{name}": value for name, value in relay.recorder.figures.items() if name.isidentifier()},
        }
        return LocalAnswer(200, relay.metrics.text(figures).encode(), "text/plain; version=0.0.4; charset=utf-8")

    def _status(self, rest: str) -> LocalAnswer:
        relay = self._relay
        queue = relay.recorder.queue
        nonce = parse_qs(rest.partition("?")[2]).get("nonce", [""])[0]
        status: dict[str, Any] = {
            "service": SERVICE,
            "version": relay.version,
            "pid": os.getpid(),
            "address": relay.address,
            "uptime_s": round(time.time() - self._started_at),
            "is_draining": relay.is_draining,
            "upstreams": {name: upstream.url for name, upstream in relay.settings.upstreams.items()},
            "server": relay.server,
            "connections": len(relay.connections),
            "clients": len(relay.leases),
            "requests": relay.metrics.total("requests_total"),
            "recorder": {"pid": relay.recorder.pid, "restarts": relay.recorder.restarts_total},
            "gaps": queue.gaps_total,
            "compactor": {
                "pid": relay.compactor.pid,
                "restarts": relay.compactor.restarts_total,
                "scope": relay.settings.compact_scope if relay.compactor.is_on else "",
                "profile": relay.settings.compact_profile,
            },
            "compactions": relay.metrics.total("compactions_total"),
            "proof": proof(relay.key, relay.address, nonce) if nonce else "",
        }
        return _json(status)

    def _lease(self, rest: str) -> LocalAnswer:
        label, _, query = rest.removeprefix("/").partition("?")
        if not label:
            return _json({"error": {"type": "label", "message": "Ariadne gateway: A lease needs a label."}}, status=404)
        options = {name: values[0] for name, values in parse_qs(query).items()}
        return LocalAnswer(200, b"", lease=label, options=options)

    def _session(self, rest: str) -> LocalAnswer:
        label = rest.removeprefix("/").partition("?")[0]
        requests = self._relay.requests_by_client.get(label, 0)
        answer = {"requests": requests, "session": self._relay.recorder.sessions.get(label)}
        compactions, saved = self._relay.compactions_by_client.get(label, (0, 0))
        return _json(answer | ({"compactions": compactions, "saved_tokens": saved} if compactions else {}))


def proof(key: bytes, address: str, nonce: str) -> str:
    """Return what only a gateway of the same user can answer, so that no other one gets an agent's credentials."""
    return hmac.new(key, f"{address}\n{nonce}".encode(), hashlib.sha256).hexdigest()


def _json(value: Any, *, status: int = 200) -> LocalAnswer:
    return LocalAnswer(status, json.dumps(value).encode() + b"\n")
