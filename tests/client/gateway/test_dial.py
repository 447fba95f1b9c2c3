"""Connections to upstreams over TLS, and through a proxy."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from compact.gateway.relay.dial import proxy_of
from compact.gateway.upstreams import parse_upstream
from gateways import Peer, ScriptedUpstream, Upstream, connect, running_gateway
from wait import wait_until

REQUEST = b"POST /custom/local/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        cwd=directory, check=True, capture_output=True,
    )  # fmt: skip
    return directory / "cert.pem"


def serve_tls(certificate: Path, offered: list[str], selected: list[str | None]) -> Upstream:
    """Return a server that answers one request per connection and keeps the protocols that were agreed on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    context.set_alpn_protocols(offered)

    def serve(peer: Peer) -> None:
        secure = context.wrap_socket(peer.socket, server_side=True)
        peer.socket = secure
        selected.append(secure.selected_alpn_protocol())
        peer.read_head()
        peer.send(ANSWER)
        peer.read_to_end()

    return Upstream(serve)


@pytest.fixture
def tls_upstream(certificate: Path) -> Iterator[Upstream]:
    with serve_tls(certificate, ["http/1.1"], []) as running:
        yield running


def test_a_known_certificate_is_accepted(tls_upstream, certificate, tmp_path, monkeypatch):
    """The certificate of a company that the agent trusts is trusted here too."""
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(certificate))
    with running_gateway(tmp_path, addresses={"local": f"https://localhost:{tls_upstream.port}/base"}) as gateway:
        peer = connect(gateway.port)
        peer.send(REQUEST)
        assert peer.read(len(ANSWER)) == ANSWER
        head = f"POST /base/v1/messages HTTP/1.1\r\nHost: localhost:{tls_upstream.port}\r\n"
        assert tls_upstream.peers[0].received.startswith(head.encode())
        # An agent that closes its connection closes that of the upstream.
        peer.close()
        assert wait_until(lambda: not gateway.json("/status")["connections"] - 1)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_wrong_certificate_is_refused(tls_upstream, certificate, tmp_path, monkeypatch, host):
    """Neither an unknown issuer nor another host name gets a request."""
    if host == "127.0.0.1":
        monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(certificate))
    with running_gateway(tmp_path, addresses={"local": f"https://{host}:{tls_upstream.port}"}) as gateway:
        peer = connect(gateway.port)
        peer.send(REQUEST)
        with pytest.raises(ConnectionResetError):
            peer.read_to_end()
        assert "certificate verify failed" in (tmp_path / "log").read_text()
        assert not any(peer.received for peer in tls_upstream.peers)


def test_a_provider_with_http_2_is_asked_for_http_1(certificate, tmp_path, monkeypatch):
    """The agent speaks HTTP/1.1 to the gateway, and its bytes are forwarded as they are."""
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(certificate))
    selected: list[str | None] = []
    with (
        serve_tls(certificate, ["h2", "http/1.1"], selected) as upstream,
        running_gateway(tmp_path, addresses={"local": f"https://localhost:{upstream.port}"}) as gateway,
    ):
        peer = connect(gateway.port)
        peer.send(REQUEST)
        assert peer.read(len(ANSWER)) == ANSWER
        assert selected == ["http/1.1"]
        assert upstream.peers[0].received.startswith(b"POST /v1/messages HTTP/1.1\r\n")


def test_the_proxy_of_the_environment_is_used(tmp_path, monkeypatch):
    """An upstream that is only reachable through a proxy is asked for with CONNECT, with the proxy's credentials."""
    with ScriptedUpstream() as proxy:
        proxy.start()
        monkeypatch.setenv("http_proxy", f"http://user:p%40ss@127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        with running_gateway(tmp_path, addresses={"local": "http://provider.example"}) as gateway:
            peer = connect(gateway.port)
            peer.send(REQUEST)
            assert wait_until(lambda: proxy.peer.received.endswith(b"\r\n\r\n"))
            assert proxy.peer.received.startswith(b"CONNECT provider.example:80 HTTP/1.1\r\n")
            assert b"Proxy-Authorization: Basic dXNlcjpwQHNz" in proxy.peer.received
            proxy.peer.received.clear()
            proxy.peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            assert wait_until(lambda: proxy.peer.received.startswith(b"POST /v1/messages HTTP/1.1\r\n"))
            proxy.peer.send(ANSWER)
            assert peer.read(len(ANSWER)) == ANSWER


def test_the_proxy_of_an_upstream():
    """NO_PROXY and loopback have no proxy."""
    upstream = parse_upstream("a", "https://api.example.com")
    assert proxy_of(upstream, {"https_proxy": "http://p:1"}) == "http://p:1"
    assert proxy_of(upstream, {"http_proxy": "http://p:1"}) == ""
    assert proxy_of(upstream, {"all_proxy": "http://p:1", "no_proxy": "x, .example.com"}) == ""
    assert proxy_of(upstream, {"all_proxy": "http://p:1", "no_proxy": "ample.com"}) == "http://p:1"
    assert proxy_of(parse_upstream("a", "https://localhost"), {"all_proxy": "http://p:1"}) == ""
