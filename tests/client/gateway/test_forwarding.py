"""The gateway beside a direct connection: the same bytes, in both directions, each as soon as it arrives."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateways import Gateway, ScriptedUpstream, Step, client, play, running_gateway, server

SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def post(path: bytes, body: bytes, *headers: bytes) -> bytes:
    lines = [b"POST PREFIX" + path + b" HTTP/1.1", b"host:  HOST ", *headers, b"content-length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", body])


def chunk(data: bytes) -> bytes:
    return b"%X;name=value\r\n%s\r\n" % (len(data), data)


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", body])


EVENT = b'data: {"type":"content_block_delta","delta":{"text":"' + b"x" * 30 + b'"}}\n\n'
CASES: dict[str, list[Step]] = {
    "anthropic stream": client(
        post(b"/v1/messages?beta=true&x=%2F%20", b"{}", b"X-API-KEY: k", b"aCCEPT-Encoding:gzip", b"x-a:", b"X-A: 2")
    )
    + server(SSE, chunk(EVENT), chunk(EVENT), END),
    "count tokens": client(post(b"/v1/messages/count_tokens", b"{}")) + server(answer(b'{"input_tokens":3}')),
    "responses stream": client(post(b"/v1/responses", b'{"input":"hi"}', b"Authorization: Bearer k"))
    + server(SSE, chunk(EVENT)[:10], chunk(EVENT)[10:], END[:2], END[2:]),
    "chat": client(post(b"/v1/chat/completions", b"{}")) + server(answer(b"{}", b"x-ratelimit-remaining-tokens: 1")),
    "gemini stream": client(post(b"/v1beta/models/g:streamGenerateContent?alt=sse&key=k", b"{}"))
    + server(SSE, chunk(EVENT), END),
    "unknown path": client(b"DELETE PREFIX/v1/files/a%20b/../c HTTP/1.1\r\nHost: HOST\r\n\r\n")
    + server(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "head": client(b"HEAD PREFIX/ HTTP/1.1\r\nHost: HOST\r\n\r\n")
    + server(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")
    + client(b"GET PREFIX/v1/models HTTP/1.1\r\nHost: HOST\r\n\r\n")
    + server(answer(b"[]")),
    "request in pieces": client(post(b"/v1/messages", b"a" * 70_000)[:-69_000], b"a" * 60_000, b"a" * 9_000)
    + server(answer(b"{}")[:12], answer(b"{}")[12:]),
    "chunked request with trailers": client(
        b"POST PREFIX/v1/messages HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\nHost: HOST\r\nTrailer: X-T\r\n\r\n",
        chunk(b"hello"),
        chunk(b"world")[:3],
        chunk(b"world")[3:],
        b"0\r\nX-T: 1\r\n\r\n",
    )
    + server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(b"a"), b"0\r\nX-Sum: 1\r\n\r\n"),
    "100-continue": client(
        b"POST PREFIX/v1/messages HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
    )
    + server(b"HTTP/1.1 100 Continue\r\n\r\n")
    + client(b"{}")
    + server(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", answer(b"{}")),
    "keep-alive": (client(post(b"/v1/messages", b"{}")) + server(answer(b"{}"))) * 3,
    "pipelined": client(post(b"/v1/messages", b"1"), post(b"/v1/messages", b"22"))
    + server(answer(b"a") + answer(b"b")[:9], answer(b"b")[9:]),
    "compressed": client(post(b"/v1/messages", gzip.compress(b"{}", mtime=0), b"content-encoding: gzip"))
    + server(answer(gzip.compress(b"{}" * 99, mtime=0), b"content-encoding: gzip")),
    "not modified": client(b"GET PREFIX/v1/models HTTP/1.1\r\nHost: HOST\r\n\r\n")
    + server(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 12\r\n\r\n")
    + client(b"GET PREFIX/v1/models HTTP/1.1\r\nHost: HOST\r\n\r\n")
    + server(answer(b"[]")),
    "until the end": client(b"GET PREFIX/v1/models HTTP/1.0\r\nHost: HOST\r\n\r\n")
    + server(b"HTTP/1.0 200 OK\r\n\r\n", b"all of", b" it"),
    "rate limit": client(post(b"/v1/messages", b"{}"))
    + server(answer(b"{}", b"Retry-After: 1", b"Set-Cookie: a=b", status=b"429 Too Many Requests")),
    "websocket": client(
        b"GET PREFIX/v1/responses HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    + server(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x02hi")
    + client(b"\x81\x82abcd\x00\x00")
    + server(b"\x81\x01a", b"\x81"),
    "refused upgrade": client(
        b"GET PREFIX/v1/responses HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    + server(answer(b"", status=b"426 Upgrade Required"))
    + client(post(b"/v1/responses", b"{}"))
    + server(answer(b"{}")),
    "malformed chunks": client(
        b"POST PREFIX/v1/messages HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    )
    + server(answer(b"", b"connection: close", status=b"400 Bad Request")),
    "unreadable answer": client(post(b"/v1/messages", b"{}")) + server(b"SSH-2.0-OpenSSH\r\n\r\n", b"more"),
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory: Path = tmp_path_factory.mktemp("gateway")
    with running_gateway(directory, addresses={"local": upstream.url}) as running:
        yield running


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_bytes_and_chunks_are_those_of_a_direct_connection(case, gateway, upstream):
    """Each piece arrives before the next is sent, and both sides get the same bytes with and without a gateway."""
    direct = play(upstream.port, case, upstream, "", upstream.authority)
    direct_request = upstream.peer.received
    direct.close()
    through = play(gateway.port, case, upstream, "/custom/local", f"127.0.0.1:{gateway.port}")
    assert upstream.peer.received == direct_request
    assert through.received == direct.received
    through.close()
