"""Real agents read the settings that `compactctl` has written."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from receiver import Receiver, eventually

from real_agents.conftest import Provider, RealAgent

PROJECTS = ("claude-new", "claude-code"), ("codex", "codex"), ("gemini", "gemini-cli"), ("opencode", "opencode")
# Gemini CLI starts no server in a folder that is not trusted.
CONNECTED = {"claude-code": "Connected", "codex": "enabled", "gemini-cli": "Disabled", "opencode": "connected"}


def compactctl(agent: RealAgent, *arguments: str, variables: dict[str, str] | None = None) -> str:
    done = agent.run(*arguments, prefix=(sys.executable, "-m", "compact.cli"), variables=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("package", "name"), PROJECTS)
def test_an_agent_lists_our_mcp_server(package, name, install):
    """Most of them start it for this, and say whether it answers."""
    agent: RealAgent = install(package, "home")
    assert "ariadne" not in agent.run("mcp", "list").stdout
    compactctl(agent, "mcp", "install", name)
    listed = agent.run("mcp", "list")
    (row,) = [
        line for line in (listed.stdout + listed.stderr).splitlines() if line.lstrip("○●│✓ ").startswith("ariadne")
    ]
    assert CONNECTED[name] in row
    compactctl(agent, "mcp", "uninstall", name)
    assert "ariadne" not in agent.run("mcp", "list").stdout


def test_codex_runs_our_hooks_around_a_compaction(install):
    """The prompt from before it is archived, once, and the session is delivered with its compaction."""
    with Provider() as provider, Receiver() as receiver:
        agent: RealAgent = install("codex", "home")
        compactctl(agent, "hooks", "install", "codex", "--url", receiver.url, "--key", "k")
        local = {
            "name": "local",
            "base_url": f"{provider.url}/v1",
            "env_key": "OPENAI_API_KEY",
            "wire_api": "responses",
        }
        settings = {f"model_providers.local.{key}": value for key, value in local.items()}
        settings |= {"model_provider": "local"}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={json.dumps(value)}")]
        options += ["-c", "model_auto_compact_token_limit=5", "exec", "--skip-git-repo-check"]
        options += ["--dangerously-bypass-hook-trust"]
        first = agent.run(*options, "Never deploy on Fridays.")
        assert "All done." in first.stdout, first.stderr
        second: subprocess.CompletedProcess[str] = agent.run(*options, "resume", "--last", "Go on.")
        for event in ("PreCompact", "PostCompact", "SessionStart"):
            assert f"hook: {event} Completed" in second.stderr
        assert "warning: clamping" not in second.stderr

        def kinds() -> set[str]:
            requests = [request for request in list(receiver.requests) if request.path == "/ingest"]
            return {str(event.get("kind")) for request in requests for event in request.events}

        eventually(lambda: "compact.pruned_messages" in kinds(), 60)
        (archived,) = {request.raw for request in receiver.requests if "transcripts" in request.path}
        assert b"Never deploy on Fridays." in archived
