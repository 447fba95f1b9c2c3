"""Long sessions of real agents in compact mode, whose prompts exceed a small window. The provider is strict.

The agent reads one file after the other, so that its history grows with each call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ports import reserve_port
from providers.conversation import Call, Prompt, Turn
from providers.rejection import Rejection
from providers.reply import Reply
from providers.server import StrictProvider
from providers.socket_server import SocketServer

from real_agents.conftest import RealAgent

READS = 40
_TEXT = "The parser of src/orders reads seventeen rows because the cache is stale. " * 90


def reader(arguments: Mapping[str, Callable[[str], dict[str, object]]], folder: Path) -> Callable[[Prompt], Turn]:
    """Return a model that reads file after file with one of these tools, whatever is left of its history."""
    lock, count = threading.Lock(), iter(range(10_000))

    def model(prompt: Prompt) -> Turn:
        tool = next((name for name in arguments if name in prompt.tools), None)
        if tool is None:
            return Turn("A title")
        with lock:
            number = next(count)
        if number >= READS:
            return Turn("All done.")
        return Turn(calls=(Call(tool, arguments[tool](str(folder / f"file{number}.txt"))),))

    return model


def write_files(agent: RealAgent, window: int) -> None:
    work = agent.home / "work"
    work.mkdir(parents=True)
    (work / "compact.yaml").write_text(f"max_context_tokens: {window}\npolicy:\n  hard_cap_buffer: 500\n")
    for number in range(READS):
        (work / f"file{number}.txt").write_text(f"File {number}. {_TEXT}")


@pytest.mark.req("A-GW-4")
@pytest.mark.parametrize("version", ["claude-old", "claude-new"])
def test_claude_code(version, install):
    """Each prompt is accepted and fits, and at the end a line says what was compacted."""
    agent: RealAgent = install(version, "home")
    model = reader({"Read": lambda path: {"file_path": path}}, agent.home / "work")
    with StrictProvider(model=model) as provider, reserve_port() as port:
        write_files(agent, window := 45_000)
        provider.window_tokens = window
        options = ["--compact", "--upstream", f"anthropic={provider.url}"]
        done = agent.run_behind_gateway(port, options, "-p", "Read all files.", "--allowedTools", "Read")
        assert "All done." in done.stdout, done.stderr + str(provider.rejections[:3])
        assert provider.rejections == []
        assert provider.overflows == []
        assert "Compacted" in done.stderr
        turns = [request for request in provider.requests if len(request.messages) > 4]
        assert len(turns) >= READS - 2
        assert max(len(request.messages) for request in turns) < 2 * READS


class CodexProvider(StrictProvider):
    """A strict provider that accepts the fields which only Codex sends, and only from Codex."""

    def handle(self, method: str, url: str, body: dict[str, Any], headers: dict[str, str]) -> Reply | Rejection:
        items = body.get("input")
        for item in items if isinstance(items, list) else []:
            item.pop("internal_chat_message_metadata_passthrough", None)
        body.pop("client_metadata", None)
        return super().handle(method, url, body, headers)


@pytest.mark.req("A-GW-4")
@pytest.mark.parametrize("transport", ["http", "websocket"])
def test_codex(transport, install):
    """Over HTTP, and over its websocket, on which it sends only what is new."""
    agent: RealAgent = install("codex", "home")
    tools = {
        "exec_command": lambda path: {"cmd": f"cat {path}"},
        "shell_command": lambda path: {"command": f"cat {path}"},
        "shell": lambda path: {"command": ["cat", path]},
    }
    model = reader(tools, agent.home / "work")
    with CodexProvider(model=model) as provider, reserve_port() as port, ExitStack() as stack:
        write_files(agent, window := 30_000)
        provider.window_tokens = window
        socket = stack.enter_context(SocketServer(provider))
        url, own = (provider.url, ["--http"]) if transport == "http" else (socket.url, [])
        options = ["--compact", *own, "--upstream", f"openai={url}"]
        done = agent.run_behind_gateway(
            port, options, "exec", "--skip-git-repo-check", "-m", "gpt-5", "Read all files."
        )
        assert "All done." in done.stdout + done.stderr, done.stderr[-2000:] + str(provider.rejections[:3])
        assert provider.rejections == []
        assert "Compacted" in done.stderr
        assert bool(socket.extensions) == (transport == "websocket")
        continued = ["previous_response_id" in request.body for request in provider.requests]
        assert any(continued) == (transport == "websocket")
        assert not continued[-1]
