"""A scripted chat completions endpoint on the loopback interface."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any

Response = tuple[int, dict[str, str], bytes]
HEADERS_START = b"HTTP/1.0 200 OK\r\nx-slow: "
BODY_START = b"HTTP/1.0 200 OK\r\n\r\n"
Step = Response | bytes | Callable[[dict[str, Any]], Response]


def completion(content: Any, *, finish_reason: str = "stop", **message: Any) -> Response:
    """Return a 200 response whose message has this content. A dict is serialized as JSON."""
    text = content if isinstance(content, str) or content is None else json.dumps(content)
    body = {
        "choices": [{"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish_reason}],
        "usage": {"completion_tokens": 17},
    }
    return 200, {}, json.dumps(body).encode()


def failure(status: int, message: str, *, code: str = "", **headers: str) -> Response:
    """Return an error response in the provider's format."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, names, json.dumps({"error": {"message": message, "code": code}}).encode()


class ChatEndpoint:
    """Answers requests from a script. The last response is repeated."""

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
                    endpoint._trickle(step, self.wfile)
                    return
                status, headers, payload = step(body) if callable(step) else step
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                if cut := headers.get("x-cut-after"):
                    payload = payload[: int(cut)]
                    self.close_connection = True
                # A client that timed out has closed the connection.
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

    def respond(self, *script: Step) -> None:
        """Set the responses. Plain bytes start a response that then sends one byte at a time until the test ends.

        A response with the header `x-cut-after` ends after this many bytes of its body.
        """
        self._script = list(script)

    def hang(self, body: dict[str, Any]) -> Response:
        """Send no response until the test ends."""
        self.released.wait(20)
        return completion("{}")

    def _trickle(self, start: bytes, stream: BufferedIOBase) -> None:
        with contextlib.suppress(OSError):  # the client has closed the connection
            stream.write(start)
            while not self.released.wait(0.02):
                stream.write(b" ")

    def __enter__(self) -> ChatEndpoint:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
