"""A small endpoint that speaks chat completions on the loopback, and answers as a test tells it to."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any

Answer = tuple[int, dict[str, str], bytes]
HEADERS_OPEN = b"HTTP/1.0 200 OK\r\nx-slow: "
BODY_OPEN = b"HTTP/1.0 200 OK\r\n\r\n"
Step = Answer | bytes | Callable[[dict[str, Any]], Answer]


def completion(content: Any, *, finish_reason: str = "stop", **message: Any) -> Answer:
    """A 200 whose message holds this content (a dict becomes JSON)."""
    text = content if isinstance(content, str) or content is None else json.dumps(content)
    body = {
        "choices": [{"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish_reason}],
        "usage": {"completion_tokens": 17},
    }
    return 200, {}, json.dumps(body).encode()


def failure(status: int, message: str, *, code: str = "", **headers: str) -> Answer:
    """An error in the provider's shape."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, names, json.dumps({"error": {"message": message, "code": code}}).encode()


class ChatEndpoint:
    """Answers requests in turn from a script; the last answer is repeated."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._script: list[Step] = []
        self.released = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.requests.append(body)
                endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
                script = endpoint._script
                step = script.pop(0) if len(script) > 1 else script[0]
                if isinstance(step, bytes):
                    endpoint._drip(step, self.wfile)
                    return
                status, headers, payload = step(body) if callable(step) else step
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                # A client whose time is up has hung up.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.wfile.write(payload)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, *script: Step) -> None:
        """What to say to each request; bare bytes are the beginning of an answer that then drips for ever."""
        self._script = list(script)

    def hang(self, body: dict[str, Any]) -> Answer:
        """Say nothing until the test is over."""
        self.released.wait(20)
        return completion("{}")

    def _drip(self, beginning: bytes, to: BufferedIOBase) -> None:
        with contextlib.suppress(OSError):  # the other side has gone
            to.write(beginning)
            while not self.released.wait(0.02):
                to.write(b" ")

    def __enter__(self) -> ChatEndpoint:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
