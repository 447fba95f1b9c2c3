"""Connections that end in unusual ways still get the answer to their request."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

import pytest
from live_server import Server

from ..conftest import Wire

MB = 1_000_000


def span(trace: str, number: int) -> dict[str, Any]:
    return {"type": "span", "trace_id": trace, "span_id": f"s{number}", "kind": "tool"}


def address(server: Server) -> tuple[str, int]:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return host, int(port)


def post_and_close_the_write_side(server: Server, body: bytes) -> bytes:
    """Send a request, say that nothing follows, and return everything that the server answers."""
    head = f"POST /ingest HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.ingest_key}\r\n"
    with socket.create_connection(address(server), timeout=30) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_half_closed_connection_gets_its_answer(wire: Wire, name: str, server: Server) -> None:
    """Also for a body that a worker process decodes. The connection ends with the answer."""
    for number in range(20):
        answer = post_and_close_the_write_side(server, json.dumps(span(name, number)).encode())
        assert answer.startswith(b"HTTP/1.1 200 "), answer
    events = [{**span(name, number), "data": {"x": "y" * 200}} for number in range(20, 500)]
    assert post_and_close_the_write_side(server, json.dumps({"events": events}).encode()).startswith(b"HTTP/1.1 200 ")
    assert len(wire.spans(name)) == 500


def test_a_half_closed_connection_without_a_whole_request_is_closed(server: Server) -> None:
    """Before the request, and in the middle of it."""
    for start in (b"", b"POST /ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123"):
        with socket.create_connection(address(server), timeout=30) as connection:
            connection.sendall(start)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""


@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_sends_everything_first_reads_that_it_was_too_large(server: Server, chunked: bool) -> None:
    """Python's http.client reads no answer before it has sent 100 MB."""
    connection = http.client.HTTPConnection(*address(server), timeout=60)
    headers = {"Authorization": f"Bearer {server.ingest_key}", "Content-Type": "application/json"}
    pieces = (b"x" * MB for _ in range(100))
    connection.request("POST", "/ingest", pieces if chunked else b"x" * 100 * MB, headers, encode_chunked=chunked)
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["code"]) == (413, "too_large")
    assert response.getheader("Connection") == "close"
