"""The relay process: accept agents, and own what their connections share.

It imports no redaction and no tokenizer, and fetches nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compact.delivery.endpoint import configured_url, without_credentials
from compact.gateway.frames import Kind, Verdict
from compact.gateway.http1.heads import RequestHead
from compact.gateway.relay.answer_stream import Exchange
from compact.gateway.relay.client_connection import ClientConnection
from compact.gateway.relay.compactor_process import CompactorProcess
from compact.gateway.relay.credentials import copied_request_headers, copied_target, credential_hash
from compact.gateway.relay.dial import Dialer
from compact.gateway.relay.held_request import HeldRequest, is_signed
from compact.gateway.relay.held_socket import HeldSocket
from compact.gateway.relay.local_pages import LocalPages
from compact.gateway.relay.metrics import Metrics
from compact.gateway.relay.recorder_process import RecorderProcess
from compact.gateway.settings import GatewaySettings
from compact.gateway.upstreams import Route, Upstream, guess_protocol, is_model_call
from compact.gateway.user_key import user_key

_BACKLOG = 1024
_RECORDER_CLOSE_S = 10.0
_UPGRADE_TIMEOUT_S = 30.0
_ERROR_INTERVAL_S = 5.0
_FIRST_LEASE_S = 30.0
_UNUSED_S = 2.0
_MAX_CLIENTS = 10_000
_UNCOMPACTED = {
    "late": "The compactor needed too long.",
    "unavailable": "The compactor does not run. It is restarted.",
    "too_large": "Its body is larger than 32 MB.",
}


class Relay:
    """One gateway."""

    def __init__(self, settings: GatewaySettings, listener: socket.socket) -> None:
        self.settings = settings
        self.key = user_key()
        self.version = settings.version
        self.server = without_credentials(configured_url())
        self.metrics = Metrics()
        self.recorder = RecorderProcess(settings.recorder, settings.buffer_bytes)
        self.compactor = CompactorProcess(settings.compactor)
        self.dialer = Dialer()
        self.pages = LocalPages(self)
        self.connections: set[ClientConnection] = set()
        self.leases: dict[str, Mapping[str, str]] = {}
        self.requests_by_client: dict[str, int] = {}
        self.compactions_by_client: dict[str, tuple[int, int]] = {}
        """The number of compactions and the tokens that they removed."""
        self.is_draining = False
        host, port = listener.getsockname()[:2]
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._closed = asyncio.Event()
        self._successor: subprocess.Popen[bytes] | None = None
        self._ids = itertools.count(1)
        # The same for all gateways of this user, so that the next one knows which sessions a credential may continue.
        self._hash_key = hmac.digest(self.key, b"credentials", "sha256")
        self._last_error_at = self._last_uncompacted_at = -_ERROR_INTERVAL_S

    async def run(self) -> int:
        """Serve until a signal, let streams finish, and return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._on_stop)
        self._loop.add_signal_handler(signal.SIGUSR2, self._on_upgrade)
        self._server = await self._loop.create_server(
            lambda: ClientConnection(self), sock=self._listener, backlog=_BACKLOG
        )
        self._report_ready()
        if self.settings.is_leased:
            self._loop.call_later(_FIRST_LEASE_S, self._check_leases)
        await self._closed.wait()
        await asyncio.gather(self.compactor.close(_RECORDER_CLOSE_S), self.recorder.close(_RECORDER_CLOSE_S))
        return await self._successor_exit_code()

    # Exchanges

    def open_exchange(
        self, head: RequestHead, route: Route, upstream: Upstream, target: str, request: HeldRequest | None = None
    ) -> Exchange:
        """Count a request that is forwarded, and copy its head."""
        self.metrics.count_request(upstream.name)
        if route.client:
            self._count_request_of(route.client)
        is_copied = self.recorder.is_on
        has_copied_bodies = is_copied and guess_protocol(target) != "unknown"
        number = request.id if request else self.next_exchange_id()
        exchange = Exchange(number, head.method, upstream.name, is_copied, has_copied_bodies, head.wants_upgrade)
        if is_copied:
            payload = request.recorder_payload if request else self.open_payload(head, route, upstream, target)
            self.recorder.add_json(Kind.OPEN, exchange.id, payload)
        return exchange

    def next_exchange_id(self) -> int:
        """Return the id of a new exchange."""
        return next(self._ids)

    def open_payload(self, head: RequestHead, route: Route, upstream: Upstream, target: str) -> dict[str, Any]:
        """Return the head of a request for other processes, without its credentials."""
        payload: dict[str, Any] = {
            "method": head.method,
            "path": copied_target(target),
            "upstream": upstream.name,
            "url": upstream.url,
            "protocol": guess_protocol(target),
            "headers": copied_request_headers(head.headers),
            "credential": credential_hash(self._hash_key, head.headers, target),
            "client": route.client,
        }
        if self._is_compacted(route):
            payload["is_compacted"] = True
        return payload

    def may_compact(self, head: RequestHead, route: Route, target: str) -> bool:
        """Return True if the compactor is asked about a request."""
        if not self.compactor.is_on or head.method != "POST" or not is_model_call(target) or is_signed(head):
            return False
        return self.settings.compact_scope == "listed" or self._is_compacted(route)

    def may_compact_messages(self, route: Route, target: str) -> bool:
        """Return True if the compactor is asked about the messages of a websocket."""
        if not self.compactor.is_on or guess_protocol(target) != "responses":
            return False
        return self.settings.compact_scope == "listed" or self._is_compacted(route)

    def note_rewrite(self, request: HeldRequest | HeldSocket, verdict: Verdict | None) -> None:
        """Count what became of a request in compact mode."""
        compactions = verdict["compactions"] if verdict else 0
        saved = verdict["saved_tokens"] if verdict else 0
        self.metrics.count_rewrite(request.rewrite, compactions, saved)
        client = request.route.client
        if client and compactions:
            count, tokens = self.compactions_by_client.get(client, (0, 0))
            self.compactions_by_client[client] = count + compactions, tokens + saved
        if verdict is None:
            self._report_uncompacted(request.rewrite)

    def _is_compacted(self, route: Route) -> bool:
        return self.settings.compact_scope == "all" or self.leases.get(route.client, {}).get("compact") == "1"

    def _report_uncompacted(self, reason: str) -> None:
        if self._loop.time() - self._last_uncompacted_at >= _ERROR_INTERVAL_S:
            self._last_uncompacted_at = self._loop.time()
            _write_line(f"A request was sent without a check of its length. {_UNCOMPACTED[reason]}")

    def answers_http_only(self, route: Route) -> bool:
        """Return True if a request for a websocket is answered with 426."""
        return self.settings.is_http_only or self.leases.get(route.client, {}).get("http") == "1"

    def report_connect_error(self, upstream: Upstream, error: Exception) -> None:
        """Write one line about an upstream that cannot be reached, at most every few seconds."""
        self.metrics.count_connect_error(upstream.name)
        if self._loop.time() - self._last_error_at >= _ERROR_INTERVAL_S:
            self._last_error_at = self._loop.time()
            _write_line(f"Cannot connect to {upstream.url}: {error}")

    # Leases

    def start_lease(self, label: str, options: Mapping[str, str]) -> None:
        """Note that an agent of `compactctl run` has started."""
        self.leases[label] = options

    def end_lease(self, label: str) -> None:
        """Note that it has ended, and stop if it was the last one that this gateway was started for."""
        self.leases.pop(label, None)
        self._check_leases()

    def _check_leases(self) -> None:
        if self.settings.is_leased and not self.leases:
            self._drain()

    def _count_request_of(self, client: str) -> None:
        if client not in self.requests_by_client and len(self.requests_by_client) >= _MAX_CLIENTS:
            oldest = next(iter(self.requests_by_client))
            self.requests_by_client.pop(oldest)
            self.compactions_by_client.pop(oldest, None)
        self.requests_by_client[client] = self.requests_by_client.get(client, 0) + 1

    # Shutdown and upgrade

    def note_closed(self) -> None:
        """Finish a shutdown after the last connection."""
        if self.is_draining and not self.connections:
            self._closed.set()

    def _on_stop(self) -> None:
        if self._successor is not None and self._successor.poll() is None:
            self._successor.terminate()
        if self.is_draining:
            _write_line(f"Stopped {len(self.connections)} streams.")
            for connection in list(self.connections):
                connection.abort()
            self._closed.set()
            return
        self._drain()
        if self.connections:
            _write_line(f"Waiting for {len(self.connections)} streams. Stop again to end them.")

    def _drain(self) -> None:
        """Accept no more connections, close those without a request, and let the others finish."""
        self.is_draining = True
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.close_if_idle()
        self._loop.call_later(_UNUSED_S, self._close_unused)
        self.note_closed()

    def _close_unused(self) -> None:
        for connection in list(self.connections):
            connection.close_if_unused()

    def _on_upgrade(self) -> None:
        """Start the program again on the same socket. This process ends after its streams."""
        if self.is_draining or self._successor is not None:
            return
        ours, theirs = os.pipe()
        listener = os.dup(self._listener.fileno())
        environment = dict(os.environ)
        replace(self.settings, listener=listener, ready=theirs).write(environment)
        command = [sys.executable, "-m", "compact.gateway"]
        try:
            self._successor = subprocess.Popen(command, env=environment, pass_fds=(listener, theirs))  # noqa: S603
        except OSError as error:
            _write_line(f"The upgrade failed: {error}")
        os.close(theirs)
        os.close(listener)
        self._loop.add_reader(ours, self._on_successor, ours)

    def _on_successor(self, pipe: int) -> None:
        self._loop.remove_reader(pipe)
        is_ready = bool(os.read(pipe, 1))
        os.close(pipe)
        if is_ready:
            self._drain()
        else:
            _write_line("The upgrade failed: the new process has ended. This one continues.")
            self._successor = None

    async def _successor_exit_code(self) -> int:
        """Wait for the process after an upgrade, which may be supervised through this one."""
        while self._successor is not None:
            code = self._successor.poll()
            if code is not None:
                return code
            await asyncio.sleep(0.2)
        return 0

    def _report_ready(self) -> None:
        if self.settings.ready >= 0:
            os.write(self.settings.ready, b"1")
            os.close(self.settings.ready)


def listen(settings: GatewaySettings) -> socket.socket:
    """Return the socket to accept agents on."""
    if settings.listener >= 0:
        return socket.socket(fileno=settings.listener)
    family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _write_line(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} [Ariadne] gateway: {text}\n")
    sys.stderr.flush()
