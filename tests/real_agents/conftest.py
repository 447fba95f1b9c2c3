"""Real agents and SDKs, in pinned versions, each with a home of its own, against a scripted provider on loopback.

`make test-agents` runs these. Packages of npm and PyPI are installed into `.agents/`, and tests are skipped with a
reason if the registry is unreachable.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from receiver import Receiver

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "claude-old": ("@anthropic-ai/claude-code@2.1.197", "claude"),
    "claude-new": ("@anthropic-ai/claude-code@2.1.327", "claude"),
    "codex": ("@openai/codex@0.169.0", "codex"),
    "gemini": ("@google/gemini-cli@0.61.0", "gemini"),
    "inspector": ("@modelcontextprotocol/inspector@0.15.0", "mcp-inspector-cli"),
    "opencode": ("opencode-ai@1.18.33", "opencode"),
}
AGENTS = {command for _, command in PACKAGES.values()}


@dataclass
class Seen:
    """One request, as it arrived."""

    version: str
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")


@dataclass
class Provider:
    """Speaks all four APIs, streamed, with a fixed text. It accepts no websocket."""

    upgrade_status: int = 426
    requests: list[Seen] = field(default_factory=list)
    answers: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Provider:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def first(self, path: str) -> Seen:
        """Return the first request with a body for a path."""
        return next(item for item in self.requests if item.path.partition("?")[0].endswith(path) and item.body)


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_HEAD(self) -> None:
            self._record(b"")
            self._send(b"", "text/plain")

        def do_GET(self) -> None:
            self._record(b"")
            if self.headers.get("upgrade"):
                self.send_response(provider.upgrade_status)
                self.send_header("content-length", "0")
                self.end_headers()
                return
            self._send(b'{"data": [], "models": []}', "application/json")

        def do_POST(self) -> None:
            body = self._read_body()
            self._record(body)
            path = self.path.partition("?")[0]
            answer = next((answer for end, answer in STREAMS.items() if path.endswith(end)), None)
            if "count_tokens" in path:
                self._send(b'{"input_tokens": 10}', "application/json")
            elif path.endswith(":countTokens"):
                self._send(b'{"totalTokens": 10}', "application/json")
            elif path.endswith(":generateContent"):
                self._send(json.dumps(_gemini(next(provider.answers))[-1]).encode(), "application/json")
            elif answer is not None:
                self._send_events(answer(next(provider.answers)))
            else:
                self._send(b"{}", "application/json")

        def _read_body(self) -> bytes:
            if self.headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("content-length") or 0))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _record(self, body: bytes) -> None:
            provider.requests.append(Seen(self.request_version, self.command, self.path, self.headers.items(), body))

        def _send(self, data: bytes, content_type: str) -> None:
            self.send_response(200)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _send_events(self, events: list[dict[str, Any] | str]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for event in events:
                data = _event(event)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


Events = list[dict[str, Any] | str]


def _event(event: dict[str, Any] | str) -> bytes:
    if isinstance(event, str):
        return f"data: {event}\n\n".encode()
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def _messages(number: int) -> Events:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
               "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "All "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "done."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def _responses(number: int) -> Events:
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "All done.", "annotations": []}]}  # fmt: skip
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 11}  # fmt: skip
    response = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "gpt-5", "status": "completed",
                "output": [item], "usage": usage}  # fmt: skip
    part = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    events: Events = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **part, "part": {"type": "output_text", "text": "", "annotations": []}},
        {"type": "response.output_text.delta", **part, "delta": "All done."},
        {"type": "response.output_text.done", **part, "text": "All done."},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return [{**event, "sequence_number": index} for index, event in enumerate(events)]  # type: ignore[dict-item]


def _chat(number: int) -> Events:
    common = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5"}
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
    pieces = ({"role": "assistant", "content": "All "}, {"content": "done."}, {})
    reasons = (None, None, "stop")
    chunks: Events = [
        {**common, "choices": [{"index": 0, "delta": piece, "finish_reason": reason}]}
        for piece, reason in zip(pieces, reasons, strict=True)
    ]
    return [*chunks, {**common, "choices": [], "usage": usage}, "[DONE]"]


def _gemini(number: int) -> Events:
    common = {"modelVersion": "gemini-2.5-pro", "responseId": f"response-{number}"}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 1, "totalTokenCount": 11}
    candidate = {"content": {"role": "model", "parts": [{"text": "All done."}]}, "finishReason": "STOP", "index": 0}
    return [{**common, "candidates": [candidate], "usageMetadata": usage}]


STREAMS: dict[str, Callable[[int], Events]] = {
    "/messages": _messages,
    "/responses": _responses,
    "/chat/completions": _chat,
    ":streamGenerateContent": _gemini,
}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


def server_of(receiver: Receiver) -> dict[str, str]:
    """Return the variables that name the server for the recorder."""
    return {"ARIADNE_URL": receiver.url, "ARIADNE_API_KEY": "key"}


def recorded_requests(receiver: Receiver) -> list[dict[str, Any]]:
    """Return the events of the recorded requests, each with parts that add up, after a check that there is no gap."""
    sent = [event for request in receiver.requests if request.path == "/ingest" for event in request.events]
    spans = {event["span_id"]: event for event in sent if "span_id" in event}.values()
    assert not [span for span in spans if span.get("kind") == "compact.gap"]
    requests = [span for span in spans if span.get("kind") == "compact.request"]
    for properties in (span["properties"] for span in requests):
        assert sum(part["tokens"] for part in properties["parts"]) == properties["tokens"]
        assert properties["usage"]["output_tokens"] == 1
    return requests


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@dataclass
class RealAgent:
    """An agent that is installed, with a home of its own and no settings of the user."""

    executable: Path
    home: Path

    def run(
        self, *arguments: str, variables: Mapping[str, str] | None = None, prefix: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        work = self.home / "work"
        work.mkdir(parents=True, exist_ok=True)
        environment = {
            "PATH": f"{self.executable.parent}:{os.environ['PATH']}",
            "HOME": str(self.home), "CODEX_HOME": str(self.home), "XDG_STATE_HOME": str(self.home / "state"),
            "ANTHROPIC_API_KEY": "sk-ant-dummy", "OPENAI_API_KEY": "sk-dummy", "CODEX_API_KEY": "sk-dummy",
            "GEMINI_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "TERM": "dumb",
            **(variables or {}),
        }  # fmt: skip
        return subprocess.run(
            [*prefix, *([] if prefix else [str(self.executable)]), *arguments],
            cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip

    def run_behind_gateway(
        self, port: int, options: list[str], *arguments: str, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it with `compactctl run`."""
        name = self.executable.name
        agent = (name,) if name in AGENTS else ("--", str(self.executable))
        command = (sys.executable, "-m", "compact.cli", "run", "--port", str(port), *options, *agent)
        return self.run(*arguments, variables=variables, prefix=command)


def install_node(*packages: str) -> Path:
    """Return a folder with these packages of npm, or skip the test."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    arguments = [npm, "install", "--no-audit", "--no-fund", "--prefix"]
    return _install(arguments, packages)


def install_python(*packages: str) -> Path:
    """Return a folder with these packages of PyPI, or skip the test."""
    return _install([sys.executable, "-m", "pip", "install", "--quiet", "--target"], packages)


def _install(command: list[str], packages: tuple[str, ...]) -> Path:
    directory = ROOT / ".agents" / "+".join(package.replace("/", "+") for package in packages)
    mark = directory / "installed"
    if not mark.exists():
        directory.mkdir(parents=True, exist_ok=True)
        arguments = [*command, str(directory), *packages]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            pytest.skip(f"{', '.join(packages)} cannot be installed: {done.stderr.strip()[-300:]}")
        mark.touch()
    return directory


@pytest.fixture
def install(tmp_path: Path) -> Any:
    """Return a function that installs an agent and gives it a fresh home."""

    def install_agent(name: str, home: str) -> RealAgent:
        package, command = PACKAGES[name]
        executable = install_node(package) / "node_modules/.bin" / command
        (tmp_path / home).mkdir()
        return RealAgent(executable, tmp_path / home)

    return install_agent
