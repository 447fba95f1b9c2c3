"""The MCP server as the official inspector sees it."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from agent_logs import CODEX_SESSION

from real_agents.conftest import RealAgent


@pytest.fixture
def inspect(install):
    """Return a function that calls the server with the inspector, and returns its answer."""
    inspector: RealAgent = install("inspector", "home")
    logs = inspector.home / "sessions" / "2026"
    logs.mkdir(parents=True)
    shutil.copy(CODEX_SESSION, logs)

    def call(*arguments: str):
        server = [sys.executable, "-m", "compact.cli", "mcp", "--all-projects"]
        done = inspector.run("--cli", *server, "--method", *arguments)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return json.loads(done.stdout)

    return call


def test_the_inspector_lists_the_tools_with_strict_schemas(inspect):
    tools = inspect("tools/list")["tools"]
    assert {tool["name"] for tool in tools} == {
        "recall", "uncompact", "explain_compaction", "list_sessions", "search",
    }  # fmt: skip
    assert all(tool["inputSchema"]["additionalProperties"] is False for tool in tools)


def test_the_inspector_gets_answers_and_errors(inspect):
    """A list to choose from, and an error with what to do next."""
    answer = inspect("tools/call", "--tool-name", "list_sessions")
    assert not answer["isError"]
    assert "calls, 2 compactions" in answer["content"][0]["text"]
    recall = "tools/call", "--tool-name", "recall", "--tool-arg", "query=export"
    assert not inspect(*recall)["isError"]
    wrong = inspect(*recall, "--tool-arg", "session=missing")
    assert wrong["isError"] and "Call list_sessions" in wrong["content"][0]["text"]
    assert inspect(*recall, "--tool-arg", "unknown=x")["isError"]
