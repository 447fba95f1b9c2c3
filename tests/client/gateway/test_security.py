"""Credentials go to the upstream and nowhere else, and only agents of this machine are served."""

from __future__ import annotations

import shutil
import stat

import pytest
from compact.gateway.frames import Kind
from gateways import Gateway, ScriptedUpstream, connect, running_gateway
from wait import wait_until

SECRETS = [f"SECRET-{number:02d}-0123456789abcdef" for number in range(12)]
ANSWER = b"HTTP/1.1 200 OK\r\nSet-Cookie: s=%s\r\nX-Session-Token: %s\r\nContent-Length: 2\r\n\r\n{}"


def exchange(gateway: Gateway, upstream: ScriptedUpstream, path: str, headers: list[str], answer: bytes = b"") -> bytes:
    """Send a request, and return what the upstream got."""
    upstream.start()
    peer = connect(gateway.port)
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", *headers, "Content-Length: 2", "", "{}"]
    peer.send("\r\n".join(lines).encode())
    assert wait_until(lambda: upstream.peer.received.endswith(b"{}"))
    answer = answer or b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    upstream.peer.send(answer)
    peer.read(len(answer))
    peer.close()
    return bytes(upstream.peer.received)


def status_of(gateway: Gateway, request: str) -> int:
    """Send a head, and return the status of the gateway's own answer."""
    peer = connect(gateway.port)
    peer.send(request.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    return int(peer.read_to_end().split(b" ")[1])


def open_frames(gateway: Gateway) -> list[dict[str, str]]:
    return [frame.json() for frame in gateway.frames() if frame.kind is Kind.OPEN]


@pytest.mark.parametrize("protocol", ["messages", "responses", "chat/completions", "models/m:generateContent", "other"])
def test_no_credential_leaves_the_relay_except_to_the_upstream(gateway, upstream, protocol):
    """Planted secrets reach the upstream, and are in no frame, file or log."""
    names = [
        "Authorization: Bearer", "x-api-key:", "API-Key:", "X-Goog-Api-Key:", "Cookie: a=", "Proxy-Authorization:",
        "X-Portkey-Virtual:", "cf-aig-authorization:", "Sec-WebSocket-Protocol: openai-insecure-api-key.",
    ]  # fmt: skip
    headers = [f"{name} {secret}" for name, secret in zip(names, SECRETS, strict=False)]
    path = f"/custom/local/v1/{protocol}?key={SECRETS[9]}&beta=true"
    answer = ANSWER % (SECRETS[10].encode(), SECRETS[11].encode())
    sent = exchange(gateway, upstream, path, headers, answer)
    assert all(secret.encode() in sent for secret in SECRETS[:10])
    assert wait_until(lambda: Kind.ANSWER_END in [frame.kind for frame in gateway.frames()])
    gateway.json("/status?nonce=n")
    gateway.metrics()
    assert b"SECRET" not in gateway.files()
    (head,) = open_frames(gateway)
    assert head["path"] == f"/v1/{protocol}?key=redacted&beta=true"
    assert ["x-api-key", "redacted"] in head["headers"]


def test_two_users_have_two_hashes_and_only_gateways_of_one_user_share_them(gateway, upstream, tmp_path):
    """The hash tells users of one gateway apart. The next gateway of the same user gives the same one."""
    for key in ("alice", "bob", "alice"):
        exchange(gateway, upstream, "/custom/local/v1/messages", [f"x-api-key: {key}"])
    exchange(gateway, upstream, "/custom/local/v1/models/m:generateContent?key=alice", [])
    exchange(gateway, upstream, "/custom/local/v1/messages", [])
    assert wait_until(lambda: len(open_frames(gateway)) == 5)
    first, second, third, parameter, none = [head["credential"] for head in open_frames(gateway)]
    assert first == third != second
    assert parameter not in {first, second, none}
    assert none == ""
    for name, is_same_user in (("other", False), ("next", True)):
        state = tmp_path / name / "state" / "compact" / "gateway"
        state.mkdir(parents=True)
        if is_same_user:
            shutil.copy2(gateway.directory / "state" / "compact" / "gateway" / "key", state / "key")
        with running_gateway(tmp_path / name, addresses={"local": upstream.url}) as other:
            exchange(other, upstream, "/custom/local/v1/messages", ["x-api-key: alice"])
            assert wait_until(lambda gateway=other: len(open_frames(gateway)) == 1)
            assert (open_frames(other)[0]["credential"] == first) is is_same_user


def test_web_pages_are_refused(gateway):
    """Neither a cross-origin request nor a name that resolves to this machine reaches an upstream."""
    path = "POST /custom/local/v1/messages HTTP/1.1"
    assert status_of(gateway, f"{path}\nHost: localhost\nOrigin: https://evil.example") == 403
    assert status_of(gateway, f"{path}\nHost: localhost\nOrigin: null") == 403
    assert status_of(gateway, f"{path}\nHost: localhost\nSec-Fetch-Site: cross-site") == 403
    assert status_of(gateway, f"{path}\nHost: evil.example:{gateway.port}") == 403
    assert status_of(gateway, f"{path}\nHost: 127.0.0.1.evil.example") == 403
    assert status_of(gateway, path) == 400
    assert gateway.metrics()['rejected_total{reason="host"}'] == 2


def test_only_named_upstreams_are_reached(gateway, upstream):
    """The gateway is no open proxy."""
    assert status_of(gateway, "GET http://example.com/ HTTP/1.1\nHost: localhost") == 400
    assert status_of(gateway, "CONNECT example.com:443 HTTP/1.1\nHost: localhost") == 400
    assert status_of(gateway, "GET /custom/example.com/v1 HTTP/1.1\nHost: localhost") == 404
    assert status_of(gateway, "GET /custom/ HTTP/1.1\nHost: localhost") == 404


def test_a_token_is_required_and_not_forwarded(upstream, tmp_path):
    """With a token, another Host is fine, and the token stays here."""
    with running_gateway(tmp_path, addresses={"local": upstream.url}, token="s3cret-token") as gateway:
        assert status_of(gateway, "POST /custom/local/v1/messages HTTP/1.1\nHost: localhost") == 401
        assert status_of(gateway, "GET /metrics HTTP/1.1\nHost: localhost") == 401
        assert status_of(gateway, "GET /token/wrong/status HTTP/1.1\nHost: localhost") == 401
        by_path = exchange(gateway, upstream, "/token/s3cret-token/custom/local/v1/messages", ["X-A: 1"])
        by_header = exchange(
            gateway, upstream, "/custom/local/v1/messages", ["X-Ariadne-Token: s3cret-token", "X-A: 1"]
        )
        assert by_path == by_header
        assert b"s3cret-token" not in by_path
        assert wait_until(lambda: len(open_frames(gateway)) == 2)
        assert b"s3cret-token" not in gateway.files()


def test_the_key_of_the_user_is_private_and_proves_the_gateway(gateway, tmp_path):
    """Another user of the machine cannot pretend to be this user's gateway."""
    key = tmp_path / "state/compact/gateway/key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    one, two = (gateway.json(f"/status?nonce={nonce}")["proof"] for nonce in ("1", "2"))
    assert one != two
    assert key.read_bytes().hex() not in str(gateway.json("/status"))
