"""Webhooks reach only public addresses, are signed, and follow no redirect."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import socket
import threading
import time
from typing import Any

import pytest
from receiver import Answer, Receiver

from viewer.alerts import webhooks
from viewer.alerts.webhooks import Failed, Refused

PRIVATE = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "::1",
    "fe80::1",
    "fd00:ec2::254",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "64:ff9b:1::7f00:1",
    "::7f00:1",
    "::ffff:0:7f00:1",
    "fec0::1",
    "198.18.0.1",
    "255.255.255.255",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_refused(address: str) -> None:
    """Loopback, private, link-local, metadata and carrier networks, also inside IPv6 addresses."""
    assert not webhooks.is_allowed(ipaddress.ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(Refused, match="private address"):
        webhooks.resolve(f"http://{host}/hook")


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111"])
def test_a_public_address_is_allowed(address: str) -> None:
    assert webhooks.is_allowed(ipaddress.ip_address(address))


@pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f000001", "127.1", "0177.0.0.1"])
def test_other_spellings_of_loopback_are_refused(host: str) -> None:
    """The resolver decides what they mean, not their text."""
    with pytest.raises((Refused, Failed)):
        webhooks.resolve(f"http://{host}/hook")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "https://user:pw@example.com/",
        "https://",
        "https://exa mple.com/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://[::1/",
        "javascript:alert(1)",
        "https://example.com/\r\nX-Header: 1",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        webhooks.parse(url)


def answers(monkeypatch: pytest.MonkeyPatch, *rounds: list[str]) -> list[int]:
    """Make the resolver give these addresses, one list for each question."""
    questions: list[int] = []

    def getaddrinfo(host: str, port: int, *args: Any, **options: Any) -> list[Any]:
        questions.append(1)
        addresses = rounds[min(len(questions), len(rounds)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(webhooks.socket, "getaddrinfo", getaddrinfo)
    return questions


def test_a_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, ["8.8.8.8", "10.0.0.1"])
    with pytest.raises(Refused):
        webhooks.resolve("https://hooks.example.com/x")


def test_a_second_dns_answer_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes to the address that was checked."""
    questions = answers(monkeypatch, ["93.184.216.34"], ["127.0.0.1"])
    connected: list[Any] = []

    def create_connection(address: Any, **_: Any) -> Any:
        connected.append(address)
        raise OSError

    monkeypatch.setattr(webhooks.socket, "create_connection", create_connection)
    with pytest.raises(Failed):
        webhooks.post("http://hooks.example.com:8080/x", "secret", {"id": 1})
    assert connected == [("93.184.216.34", 8080)]
    assert len(questions) == 1


@pytest.fixture
def allowed(settings: Any) -> None:
    settings.ALERT_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]


@pytest.mark.usefixtures("allowed")
def test_the_body_is_signed_with_its_time() -> None:
    """As documented: HMAC-SHA256 of the time, a dot, and the body."""
    with Receiver() as receiver:
        assert webhooks.post(f"{receiver.url}/hook?a=1", "s3cret", {"id": 7, "text": "„quoted“"}) == "HTTP 200"
        (request,) = receiver.requests
    assert request.path == "/hook?a=1"
    timestamp = request.headers["x-ariadne-timestamp"]
    assert abs(int(timestamp) - time.time()) < 60
    expected = hmac.new(b"s3cret", timestamp.encode() + b"." + request.body, hashlib.sha256).hexdigest()
    assert request.headers["x-ariadne-signature"] == f"v1={expected}"
    assert request.headers["x-ariadne-alert"] == "7"


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(("status", "is_final"), [(302, True), (404, True), (429, False), (500, False)])
def test_a_redirect_is_not_followed_and_server_errors_are_retried(status: int, is_final: bool) -> None:
    with Receiver() as receiver:
        receiver.answers = [Answer(status, headers={"Location": "http://169.254.169.254/"})]
        with pytest.raises(Failed) as failure:
            webhooks.post(receiver.url, "s", {"id": 1})
        assert failure.value.is_final is is_final
        assert len(receiver.requests) == 1


@pytest.mark.usefixtures("allowed")
def test_a_receiver_that_sends_a_byte_now_and_then_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one address could keep the alerts of all projects waiting."""
    monkeypatch.setattr(webhooks, "_DEADLINE_S", 0.5)
    is_over = threading.Event()

    def drip(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client, contextlib.suppress(OSError):
            while not is_over.wait(0.05):
                client.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=[listener], daemon=True)
        thread.start()
        began = time.monotonic()
        with pytest.raises(Failed):
            webhooks.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", "s", {"id": 1})
        assert time.monotonic() - began < 5
        is_over.set()
        thread.join(5)
