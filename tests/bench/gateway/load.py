"""A scripted provider and a load generator, each a process of its own, for `tests/bench/gateway`.

    python tests/bench/gateway/load.py provider                # prints its port
    python tests/bench/gateway/load.py streams '{"direct": "http://…", …}' …
    python tests/bench/gateway/load.py sessions '"http://…"' …

Streams arrive spread over the run, and each arrival goes to the next target in turn, so that all targets share the same
seconds of the machine. A chunk carries the provider's clock (CLOCK_MONOTONIC is one for all processes of a machine).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import struct
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import uvloop

CHUNKS = 50
CHUNK_INTERVAL_S = 0.02
_TIME = struct.Struct("!d")
_PAD = b"x" * 150
_SIZE = b"%x\r\n" % (_TIME.size + len(_PAD))
_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_SHORT = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


_ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "The tests of this step pass now."}]}
_USAGE = {"input_tokens": 25_000, "output_tokens": 12}
_numbers = itertools.count(1)


def _message() -> bytes:
    message = {"id": f"msg_{next(_numbers)}", "type": "message", "model": "claude-test", "usage": _USAGE, **_ANSWER}
    data = json.dumps(message).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data)


class Provider(asyncio.Protocol):
    """Answers a request whose path ends with `stream` with chunks, and any other with a short document."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._buffer = b""
        self._missing = 0
        self._target = b""
        self._is_stream = False

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            self._buffer += data
            end = self._buffer.find(b"\r\n\r\n") + 4
            if end < 4:
                return
            head, body = self._buffer[:end], self._buffer[end:]
            self._buffer = b""
            self._target = head.split(b"\r\n", 1)[0]
            self._is_stream = b"kind=stream" in self._target
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            self._missing = length - len(body)
        if self._missing == 0:
            if self._is_stream:
                self._task = asyncio.ensure_future(self._stream())
            elif b"message" in self._target:
                self._transport.write(_message())
            else:
                self._transport.write(_SHORT)

    async def _stream(self) -> None:
        self._transport.write(_STREAM)
        for _ in range(CHUNKS):
            self._transport.write(b"%s%s%s\r\n" % (_SIZE, _TIME.pack(time.monotonic()), _PAD))
            await asyncio.sleep(CHUNK_INTERVAL_S)
        self._transport.write(b"0\r\n\r\n")


async def provide() -> None:
    server = await asyncio.get_running_loop().create_server(Provider, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Stream(asyncio.Protocol):
    """One request on a connection of its own."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.started = 0.0
        self.first_byte = 0.0
        self.delays: list[float] = []
        self._buffer = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        self.first_byte = self.first_byte or now - self.started
        self._buffer += data
        while (at := self._buffer.find(_PAD)) >= 0:
            if at >= _TIME.size:
                self.delays.append(now - _TIME.unpack(self._buffer[at - _TIME.size : at])[0])
            self._buffer = self._buffer[at + len(_PAD) :]
        if self._buffer.endswith(b"0\r\n\r\n") and not self.done.done():
            self.done.set_result(None)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("The connection was closed."))


def request(url: str, path: str, body: bytes, session: str = "") -> tuple[str, int, bytes]:
    parts = urlsplit(url)
    head = f"POST {parts.path}/v1/messages?kind={path} HTTP/1.1\r\nHost: {parts.netloc}\r\nx-api-key: k\r\n"
    head += f"x-claude-code-session-id: {session}\r\n" if session else ""
    return parts.hostname or "", parts.port or 80, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def body(size: int, number: int) -> bytes:
    """A prompt that grows by one message with each request."""
    messages = [{"role": "user", "content": f"message {index} " + "word " * 150} for index in range(size // 800)]
    messages.append({"role": "user", "content": f"new {number} " + "word " * 40})
    return json.dumps({"model": "m", "max_tokens": 10, "messages": messages}).encode()


async def streams(targets: dict[str, str], size: int, concurrent: int, seconds: float) -> dict[str, Any]:
    """Start streams at an even rate that keeps the given number open, in turn to each target."""
    loop = asyncio.get_running_loop()
    results: dict[str, list[Stream]] = {name: [] for name in targets}
    interval = CHUNKS * (CHUNK_INTERVAL_S + 0.001) / concurrent
    bodies = [body(size, number) for number in range(8)]
    tasks = []

    async def one(name: str, number: int) -> None:
        host, port, data = request(targets[name], "stream", bodies[number % len(bodies)])
        stream = Stream(data)
        stream.started = time.monotonic()
        await loop.create_connection(lambda: stream, host, port)
        await stream.done
        results[name].append(stream)

    start = loop.time()
    for number in range(int(seconds / interval)):
        await asyncio.sleep(start + number * interval - loop.time())
        tasks.append(asyncio.ensure_future(one(list(targets)[number % len(targets)], number)))
    errors = [error for error in await asyncio.gather(*tasks, return_exceptions=True) if error is not None]
    return {"errors": len(errors), "targets": {name: summary(items) for name, items in results.items()}}


async def burst(targets: dict[str, str], size: int, concurrent: int) -> dict[str, Any]:
    """Start all streams of a target at one instant, one target after the other."""
    return {name: await _burst(url, size, concurrent) for name, url in targets.items()}


async def _burst(url: str, size: int, concurrent: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    host, port, data = request(url, "stream", body(size, 0))
    items = [Stream(data) for _ in range(concurrent)]

    async def one(stream: Stream) -> None:
        stream.started = time.monotonic()
        await loop.create_connection(lambda: stream, host, port)
        await stream.done

    await asyncio.gather(*(one(stream) for stream in items))
    return summary(items)


async def rate(url: str, size: int, connections: int, seconds: float) -> float:
    """Return short requests per second over connections that are kept open."""
    host, port, data = request(url, "short", body(size, 0))
    end = time.monotonic() + seconds
    counts = [0] * connections

    async def one(index: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        while time.monotonic() < end:
            writer.write(data)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
            counts[index] += 1
        writer.close()

    await asyncio.gather(*(one(index) for index in range(connections)))
    return sum(counts) / seconds


def prompts(size: int, name: str, count: int) -> list[bytes]:
    """Requests of a session, each with an answer and a message more than the one before, in about `size` bytes."""
    words = [f"{word}{number}" for number in range(400) for word in ("build", "invoice", "ledger", "path/to")]
    choose = random.Random(name).choices
    messages = [
        {"role": "user" if index % 2 == 0 else "assistant", "content": " ".join(choose(words, k=105))}
        for index in range(size // 1_000 | 1)
    ]
    bodies = []
    for number in range(count):
        bodies.append(json.dumps({"model": "claude-test", "max_tokens": 10, "messages": messages}).encode())
        messages += [_ANSWER, {"role": "user", "content": f"Next step {number}: {' '.join(choose(words, k=60))}"}]
    return bodies


async def sessions(url: str, size: int, count: int, per_second: float, seconds: float, length: int) -> dict[str, Any]:
    """Send requests of `count` agents at an even rate. Each agent starts another session after `length` requests."""
    each = int(per_second * seconds / count)
    wires = []
    for agent in range(count):
        names = [f"bench-{time.time_ns()}-{agent}-{start}" for start in range(0, each, length)]
        bodies = [(name, body) for name in names for body in prompts(size, name, length)][:each]
        wires.append([request(url, "message", body, name)[2] for name, body in bodies])
    host, port, _ = request(url, "message", b"")
    loop = asyncio.get_running_loop()
    start = loop.time() + 0.5
    late = []

    async def one(agent: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        for number, wire in enumerate(wires[agent]):
            due = start + (number * count + agent) / per_second
            await asyncio.sleep(due - loop.time())
            late.append(loop.time() - due)
            writer.write(wire)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
        writer.close()

    await asyncio.gather(*(one(agent) for agent in range(count)))
    return {"sent": each * count, "seconds": loop.time() - start, "late_p99_ms": at(sorted(late), 0.99) * 1e3}


def summary(items: list[Stream]) -> dict[str, float]:
    first = sorted(stream.first_byte * 1e3 for stream in items)
    delays = sorted(delay * 1e3 for stream in items for delay in stream.delays)
    return {
        "count": len(items),
        "first_p50": at(first, 0.5), "first_p99": at(first, 0.99),
        "chunk_p50": at(delays, 0.5), "chunk_p99": at(delays, 0.99),
    }  # fmt: skip


def at(values: list[float], share: float) -> float:
    return round(values[min(int(len(values) * share), len(values) - 1)], 3) if values else float("nan")


if __name__ == "__main__":
    mode = sys.argv[1]
    if mode == "provider":
        uvloop.run(provide())
    else:
        arguments = [json.loads(item) for item in sys.argv[2:]]
        function = {"streams": streams, "burst": burst, "rate": rate, "sessions": sessions}[mode]
        print(json.dumps(uvloop.run(function(*arguments))))
