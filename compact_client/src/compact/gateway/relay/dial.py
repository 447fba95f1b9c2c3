"""Open connections to upstreams: with verified TLS, and through the proxy of the environment if there is one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import ssl
from collections.abc import Callable, Mapping
from typing import cast
from urllib.parse import unquote, urlsplit

from compact.gateway.upstreams import Upstream

_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""Where agents look for the certificates of a company, beside the SSL_CERT_FILE of OpenSSL."""


class Dialer:
    """Opens connections, with settings that are read once."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._tls = tls_context(environment)
        # Like other programs, prefer the names in lower case.
        self._variables = {name.lower(): value for name, value in sorted(environment.items()) if value}

    async def dial(self, upstream: Upstream, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Connect a protocol to an upstream."""
        loop = asyncio.get_running_loop()
        proxy = proxy_of(upstream, self._variables)
        if proxy:
            await self._dial_through(proxy, upstream, protocol)
        elif upstream.is_tls:
            await loop.create_connection(
                protocol, upstream.host, upstream.port, ssl=self._tls, server_hostname=upstream.host
            )
        else:
            await loop.create_connection(protocol, upstream.host, upstream.port)

    async def _dial_through(self, proxy: str, upstream: Upstream, protocol: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if parts.scheme != "http" or not parts.hostname:
            raise OSError(f"The proxy of the environment has the scheme {parts.scheme}. Only http:// is supported.")
        transport, tunnel = await loop.create_connection(
            lambda: _Tunnel(upstream, parts.username, parts.password), parts.hostname, parts.port or 80
        )
        try:
            await tunnel.is_open
            inner = protocol()
            if upstream.is_tls:
                # The protocol learns of its connection after the handshake.
                secure = await loop.start_tls(transport, inner, self._tls, server_hostname=upstream.host)
                if secure is None:
                    raise OSError("The connection to the proxy was lost during the handshake.")
                inner.connection_made(secure)
            else:
                transport.set_protocol(inner)
                inner.connection_made(transport)
        except BaseException:
            transport.abort()
            raise


class _Tunnel(asyncio.Protocol):
    """Asks a proxy for a connection."""

    def __init__(self, upstream: Upstream, username: str | None, password: str | None) -> None:
        self.is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answer = b""
        target = f"{upstream.host}:{upstream.port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if username:
            user = f"{unquote(username)}:{unquote(password or '')}".encode()
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(user).decode()}")
        self._request = "\r\n".join([*lines, "", ""]).encode("latin-1")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.WriteTransport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if b"\r\n\r\n" in self._answer and not self.is_open.done():
            status = self._answer.split(b" ", 2)[1:2]
            if status == [b"200"]:
                self.is_open.set_result(None)
            else:
                code = status[0].decode("latin-1") if status else "no status"
                self.is_open.set_exception(OSError(f"The proxy of the environment answered {code}."))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_open.done():
            self.is_open.set_exception(exc or OSError("The proxy of the environment closed the connection."))


def proxy_of(upstream: Upstream, variables: Mapping[str, str]) -> str:
    """Return the proxy that a direct connection would use, or the empty string. Names are in lower case."""
    for item in variables.get("no_proxy", "").split(","):
        name = item.strip().lower().lstrip(".")
        if name == "*" or (name and (upstream.host.lower() == name or upstream.host.lower().endswith(f".{name}"))):
            return ""
    scheme = "https" if upstream.is_tls else "http"
    # Loopback is never behind a proxy, whatever the variables leave out.
    is_local = upstream.host in {"localhost", "127.0.0.1", "::1"}
    return "" if is_local else variables.get(f"{scheme}_proxy") or variables.get("all_proxy") or ""


def tls_context(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Return a context that verifies certificates and host names."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath):
        import certifi

        context.load_verify_locations(certifi.where())
    # One file has a hundred certificates, and often several variables name the same one.
    for path in {environment.get(variable, "") for variable in _CA_VARIABLES} - {"", environment.get("SSL_CERT_FILE")}:
        # An agent that cannot read its own variable fails in its own way.
        with contextlib.suppress(OSError, ssl.SSLError):
            context.load_verify_locations(path)
    # The agent speaks HTTP/1.1 to the gateway, and its bytes are forwarded as they are.
    context.set_alpn_protocols(["http/1.1"])
    return context
