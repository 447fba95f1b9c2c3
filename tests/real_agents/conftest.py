"""Real agents from npm, in pinned versions, each with a home of its own, against a scripted provider on loopback.

`make test-agents` runs these. The packages are installed into `.agents/`, and tests are skipped with a reason if the
registry is unreachable.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "claude-old": ("@anthropic-ai/claude-code@2.1.197", "claude"),
    "claude-new": ("@anthropic-ai/claude-code@2.1.327", "claude"),
    "codex": ("@openai/codex@0.169.0", "codex"),
    "gemini": ("@google/gemini-cli@0.61.0", "gemini"),
    "inspector": ("@modelcontextprotocol/inspector@0.15.0", "mcp-inspector-cli"),
    "opencode": ("opencode-ai@1.18.33", "opencode"),
}


@dataclass
class Seen:
    """One request, as it arrived."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")


@dataclass
class Provider:
    """Speaks Messages and Responses, streamed, with a fixed answer. It accepts no websocket."""

    upgrade_status: int = 426
    requests: list[Seen] = field(default_factory=list)

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
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            self._record(body)
            if "count_tokens" in self.path:
                self._send(b'{"input_tokens": 10}', "application/json")
            elif self.path.partition("?")[0].endswith("/messages"):
                self._send(_messages(), "text/event-stream")
            elif self.path.endswith("/responses"):
                self._send(_responses(), "text/event-stream")
            else:
                self._send(b"{}", "application/json")

        def _record(self, body: bytes) -> None:
            provider.requests.append(Seen(self.command, self.path, self.headers.items(), body))

        def _send(self, data: bytes, content_type: str) -> None:
            self.send_response(200)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _events(events: list[dict[str, Any]]) -> bytes:
    return b"".join(f"event: {item['type']}\ndata: {json.dumps(item)}\n\n".encode() for item in events)


def _messages() -> bytes:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    return _events([
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "All done."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ])  # fmt: skip


def _responses() -> bytes:
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "All done.", "annotations": []}]}  # fmt: skip
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 11}  # fmt: skip
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    return _events([
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ])  # fmt: skip


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
        command = (sys.executable, "-m", "compact.cli", "run", "--port", str(port), *options, self.executable.name)
        return self.run(*arguments, variables=variables, prefix=command)


@pytest.fixture
def install(tmp_path: Path) -> Any:
    """Return a function that installs an agent and gives it a fresh home."""

    def install_agent(name: str, home: str) -> RealAgent:
        package, command = PACKAGES[name]
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed")
        directory = ROOT / ".agents" / package.replace("/", "+")
        executable = directory / "node_modules/.bin" / command
        if not executable.exists():
            directory.mkdir(parents=True, exist_ok=True)
            arguments = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(directory), package]
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode:
                pytest.skip(f"{package} cannot be installed: {done.stderr.strip()[-300:]}")
        (tmp_path / home).mkdir()
        return RealAgent(executable, tmp_path / home)

    return install_agent
