"""A loopback HTTP server with scripted responses: success, delay, error or hang.

It uses real sockets and a real HTTP parser, so tests check the bytes that a client sends.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def raw(self) -> bytes:
        return gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body

    @property
    def events(self) -> list[dict[str, Any]]:
        batch: list[dict[str, Any]] = json.loads(self.raw)["batch"]
        return batch


@dataclass
class Answer:
    """A response. Without content it is that of an Ariadne server, with the fields of `body`."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    wait: Callable[[], object] | None = None
    content: bytes | None = None

    def encode(self, request: Request) -> bytes:
        """Return the body of the response to a request."""
        if self.content is not None:
            return self.content
        if request.path.endswith("/v1/traces") and self.status < 300:
            return b""  # An empty protobuf message.
        if self.status >= 300:
            return json.dumps({"success": False, "code": "rejected", "error": "scripted"} | self.body).encode()
        return json.dumps(acknowledge(request) | self.body).encode()


def acknowledge(request: Request) -> dict[str, Any]:
    """Return Ariadne's answer to a request of which everything was stored."""
    path, _, query = request.path.partition("?")
    if path.endswith("/ingest/transcripts"):
        named = dict(parse_qsl(query))
        return {"success": True, "session": named["session"], "step": int(named["step"]), "sha256": named["sha256"]}
    if path.endswith("/ingest"):
        return {"success": True, "count": len(request.events), "rejected": []}
    return {"success": True}


class Receiver:
    """Sends `receiver.answers` in order, and repeats the last one. A subclass can choose each answer itself."""

    def __init__(self, *answers: Answer, port: int = 0) -> None:
        self.answers = list(answers) or [Answer()]
        self.requests: list[Request] = []
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length)
                if len(body) < length:
                    return  # The sender ended in mid-request, as a killed process does.
                request = Request(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                answer = outer.answer(request)
                outer.requests.append(request)
                if answer.wait is not None:
                    answer.wait()
                data = answer.encode(request)
                try:
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except (BrokenPipeError, ConnectionResetError):
                    return

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        # Do not wait for hanging handlers when the server closes.
        self._server.block_on_close = False
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def hang(self) -> Answer:
        """Return an answer that is sent only when the test ends."""
        return Answer(wait=lambda: self.released.wait(30))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for request in list(self.requests) for event in request.events]

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def eventually(condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    """Wait until the condition is true and return its value."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"The condition was not true within {timeout_s} s.")
        time.sleep(0.002)
    return result
