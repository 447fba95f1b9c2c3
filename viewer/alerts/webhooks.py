"""Send signed JSON to a webhook, without giving its author a way into the private network.

The host is resolved once. Every address must be public, and the connection goes to the address that was checked, so
that a second DNS answer cannot point elsewhere. Redirects are not followed, and proxies of the environment are not
used.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

_TIMEOUT_S = 5.0
_DEADLINE_S = 6.0
# All public addresses are in it. Python also calls addresses of sites (fec0::/10) global.
_PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")
_MAX_URL_CHARS = 2_000
_MAX_ANSWER_BYTES = 4_096
_TOO_MANY_REQUESTS, _REQUEST_TIMEOUT = 429, 408
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Refused(Exception):
    """The address is not allowed. Another attempt would not help."""


class Failed(Exception):
    """The request failed. `is_final` is True if another attempt would not help."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed webhook address with the address to connect to."""

    parts: SplitResult
    address: Address

    @property
    def host(self) -> str:
        return self.parts.hostname or ""

    @property
    def port(self) -> int:
        return self.parts.port or (443 if self.parts.scheme == "https" else 80)

    @property
    def path(self) -> str:
        return (self.parts.path or "/") + (f"?{self.parts.query}" if self.parts.query else "")


def parse(url: str) -> SplitResult:
    """Return the parts of a webhook address, or raise `Refused`."""
    if len(url) > _MAX_URL_CHARS or not url.isascii() or any(char <= " " for char in url):
        raise Refused("Enter a web address without spaces.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused("Enter a valid web address.") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Refused("Enter an address that starts with https:// or http://.")
    if parts.username is not None or parts.password is not None:
        raise Refused("The address must not contain a username or password.")
    if port == 0:
        raise Refused("Enter a valid port.")
    return parts


def resolve(url: str) -> Target:
    """Resolve the host of a webhook, or raise `Refused` if any of its addresses is private."""
    parts = parse(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Failed(f"The host {host} can't be resolved.") from None
    addresses = [ipaddress.ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]
    for address in addresses:
        if not is_allowed(address):
            raise Refused(f"The host {host} has the private address {address}. Webhooks must be public.")
    return Target(parts, addresses[0])


def is_allowed(address: Address) -> bool:
    """Return True for a public address, or one in the networks that the setting allows."""
    inner = _unwrap(address)
    if any(inner in network for network in settings.ALERT_NETWORKS if network.version == inner.version):
        return True
    if isinstance(inner, ipaddress.IPv6Address) and inner not in _PUBLIC_IPV6:
        return False
    return inner.is_global and not inner.is_multicast and not inner.is_reserved


def _unwrap(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 address that a router would forward to it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.teredo[1] if address.teredo is not None else address


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return `v1=` and the HMAC-SHA256 of `timestamp.body`."""
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return f"v1={digest}"


def post(url: str, secret: str, content: dict[str, Any]) -> str:
    """Send an alert and return the answer's status, or raise `Refused` or `Failed`."""
    target = resolve(url)
    body = json.dumps(content, ensure_ascii=False).encode()
    timestamp = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Ariadne-Alerts/1",
        "X-Ariadne-Alert": str(content.get("id", "")),
        "X-Ariadne-Timestamp": str(timestamp),
        "X-Ariadne-Signature": signature(secret, timestamp, body),
        "Connection": "close",
    }
    status = _exchange(target, body, headers)
    if 200 <= status < 300:
        return f"HTTP {status}"
    if 300 <= status < 400:
        raise Failed(f"HTTP {status}. Redirects are not followed.", is_final=True)
    is_final = 400 <= status < 500 and status not in {_TOO_MANY_REQUESTS, _REQUEST_TIMEOUT}
    raise Failed(f"HTTP {status}.", is_final=is_final)


def _exchange(target: Target, body: bytes, headers: dict[str, str]) -> int:
    """Send a request to the checked address and return the status. TLS still verifies the host name."""
    try:
        raw = socket.create_connection((str(target.address), target.port), timeout=_TIMEOUT_S)
    except OSError as error:
        raise Failed(f"Can't connect to {target.host}: {type(error).__name__}.") from None
    connection = http.client.HTTPConnection(target.host, target.port)
    connection.sock = raw
    try:
        with _deadline(raw):
            if target.parts.scheme == "https":
                connection.sock = ssl.create_default_context().wrap_socket(raw, server_hostname=target.host)
            connection.request("POST", target.path, body=body, headers=headers)
            answer = connection.getresponse()
            answer.read(_MAX_ANSWER_BYTES)
            return answer.status
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"The request failed: {type(error).__name__}.") from None
    finally:
        connection.close()


@contextmanager
def _deadline(raw: socket.socket) -> Iterator[None]:
    """Shut a connection down after a while. The timeout of a socket starts again with each byte."""
    # TLS takes over the original socket.
    guard = raw.dup()

    def shut_down() -> None:
        with suppress(OSError):
            guard.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(_DEADLINE_S, shut_down)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        guard.close()
