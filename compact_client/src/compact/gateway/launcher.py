"""Find or start a gateway of this user, and hold it for as long as an agent runs."""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode, urlsplit

from compact.delivery.endpoint import state_directory
from compact.exceptions import CompactError
from compact.gateway.relay.local_pages import SERVICE, proof
from compact.gateway.relay.process import listen
from compact.gateway.settings import GatewaySettings
from compact.gateway.user_key import user_key

_REQUEST_S = 5.0
_START_S = 30.0
_RETRY_S = 0.2
_ATTEMPTS = 5


class GatewayError(CompactError):
    """No gateway could be found or started."""


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway that this user has started."""

    url: str
    status: Mapping[str, Any]

    def get(self, path: str) -> Any:
        """Return the JSON of one of the gateway's own addresses."""
        return _get(self.url, path)

    def serves(self, settings: GatewaySettings, server: str) -> bool:
        """Return True if it forwards to the same upstreams and records for the same server."""
        upstreams = {name: upstream.url for name, upstream in settings.upstreams.items()}
        known = self.status["upstreams"]
        has_all = all(known.get(name) == url for name, url in upstreams.items())
        compactor = self.status.get("compactor") or {}
        if settings.compactor and compactor.get("profile") != settings.compact_profile:
            return False
        return has_all and self.status["server"] == server and not self.status["is_draining"]


def find_gateway(host: str, port: int, token: str = "") -> RunningGateway | None:
    """Return the gateway at an address if it proves that it is of this user. Another one could keep credentials."""
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    nonce = secrets.token_hex(16)
    path = f"/token/{token}/status" if token else "/status"
    try:
        status = _get(url, f"{path}?nonce={nonce}")
    except (OSError, ValueError, http.client.HTTPException):
        return None
    if not isinstance(status, dict) or status.get("service") != SERVICE:
        return None
    address = str(status.get("address"))
    if urlsplit(address).port != port:
        return None
    expected = proof(user_key(), address, nonce)
    return RunningGateway(url, status) if hmac.compare_digest(expected, str(status.get("proof"))) else None


def join_or_start(settings: GatewaySettings, server: str) -> RunningGateway:
    """Return the gateway at the port, or start one. If another program or gateway has the port, use another port."""
    gateway = find_gateway(settings.host, settings.port)
    if gateway is not None and gateway.serves(settings, server):
        return gateway
    try:
        return start_gateway(settings)
    except OSError:
        # Another `compactctl run` may have been faster.
        gateway = find_gateway(settings.host, settings.port)
        if gateway is not None and gateway.serves(settings, server):
            return gateway
        return start_gateway(replace(settings, port=0))


def start_gateway(settings: GatewaySettings) -> RunningGateway:
    """Start a gateway in the background and wait until it accepts connections."""
    ours, theirs = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, ours)
        with contextlib.ExitStack() as start, _open_log() as log:
            start.callback(os.close, theirs)
            listener = start.enter_context(listen(settings))
            port: int = listener.getsockname()[1]
            environment = dict(os.environ)
            replace(settings, port=port, listener=listener.fileno(), ready=theirs).write(environment)
            process = subprocess.Popen(
                [sys.executable, "-m", "compact.gateway"],
                env=environment,
                pass_fds=(listener.fileno(), theirs),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                # Ctrl-C in the agent's terminal is for the agent.
                start_new_session=True,
            )
        readable, _, _ = select.select([ours], [], [], _START_S)
        if not readable or not os.read(ours, 1):
            process.kill()
            raise GatewayError(f"The gateway did not start. Its log is {log.name}.")
    # The gateway outlives this command, so its exit code is of no interest.
    process.returncode = 0
    gateway = find_gateway(settings.host, port)
    if gateway is None:
        raise GatewayError(f"The gateway started but does not answer. Its log is {log.name}.")
    return gateway


class Lease:
    """Holds a gateway. If it is restarted or dies, take or start the next one on the same port."""

    def __init__(self, gateway: RunningGateway, settings: GatewaySettings, options: Mapping[str, str]) -> None:
        self.label = secrets.token_hex(8)
        self.gateway = gateway
        self._settings = replace(settings, port=urlsplit(gateway.url).port or 0)
        self._path = f"/lease/{self.label}?{urlencode(options)}"
        self._is_over = False
        self._socket = self._open()
        self._thread = threading.Thread(target=self._hold, name="compact-gateway-lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give the gateway up."""
        self._is_over = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(_REQUEST_S)
        self._socket.close()

    def _open(self) -> socket.socket:
        parts = urlsplit(self.gateway.url)
        connection = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=_REQUEST_S)
        connection.sendall(f"GET {self._path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        if not connection.recv(1024).startswith(b"HTTP/1.1 200 "):
            connection.close()
            raise GatewayError(f"The gateway at {self.gateway.url} does not accept this agent.")
        connection.settimeout(None)
        return connection

    def _hold(self) -> None:
        while not self._is_over:
            with contextlib.suppress(OSError):
                if self._socket.recv(1024):
                    continue
            if not self._is_over:
                time.sleep(_RETRY_S)
                self._renew()

    def _renew(self) -> None:
        try:
            if find_gateway(self._settings.host, self._settings.port) is None:
                start_gateway(self._settings)
            connection = self._open()
        except (OSError, GatewayError):
            return  # The next attempt follows.
        self._socket.close()
        self._socket = connection


def lease_gateway(settings: GatewaySettings, server: str, options: Mapping[str, str]) -> Lease:
    """Find or start a gateway and hold it. One that has just stopped is replaced."""
    for attempt in range(_ATTEMPTS):
        try:
            return Lease(join_or_start(settings, server), settings, options)
        except OSError:
            time.sleep(_RETRY_S * attempt)
    raise GatewayError(f"No gateway could be started on port {settings.port}.")


def _open_log() -> Any:
    directory = state_directory() / "gateway"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return (directory / "gateway.log").open("ab")
    except OSError:
        return open(os.devnull, "ab")  # noqa: PTH123


def _get(url: str, path: str) -> Any:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_REQUEST_S)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
