"""SDKs and curl send the same bytes and get the same answers with and without the gateway, and are recorded."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from ports import reserve_port

from real_agents.conftest import Provider, RealAgent, install_node, install_python, recorded_requests, server_of
from real_agents.test_first_request import headers, same

CLIENTS = Path(__file__).with_name("clients")
UPSTREAMS = ("anthropic", "openai", "gemini")
PARTS = {"system", "user", "assistant"}


@dataclass(frozen=True)
class Client:
    """A script of `clients/`, and what it needs. The SDKs of OpenAI and Anthropic for Python are in the lock file."""

    script: str
    node: tuple[str, ...] = ()
    python: tuple[str, ...] = ()


SCRIPTS = [
    Client("python_openai_chat.py"),
    Client("python_openai_responses.py"),
    Client("python_anthropic.py"),
    Client("python_google_genai.py", python=("google-genai==3.3.0",)),
    Client("node_openai.mjs", node=("openai@6.49.0",)),
    Client("node_anthropic.mjs", node=("@anthropic-ai/sdk@1.10.0",)),
    Client("node_google_genai.mjs", node=("@google/genai@2.32.0",)),
    Client("node_vercel_ai.mjs", node=("ai@6.0.326", "@ai-sdk/anthropic@3.0.138")),
    Client("curl.sh"),
]


def program(client: Client) -> tuple[str, Path, dict[str, str]]:
    """Return the interpreter, the script and the variables of a client."""
    script = CLIENTS / client.script
    if client.node:
        # Node looks for packages beside the script.
        script = Path(shutil.copy(script, install_node(*client.node)))
    names = {".py": sys.executable, ".mjs": shutil.which("node"), ".sh": shutil.which("sh")}
    interpreter = names[script.suffix]
    if interpreter is None or (script.suffix == ".sh" and shutil.which("curl") is None):
        pytest.skip(f"{client.script} cannot run on this machine")
    return interpreter, script, {"PYTHONPATH": str(install_python(*client.python))} if client.python else {}


@pytest.mark.parametrize("client", SCRIPTS, ids=lambda client: client.script)
def test_a_client_is_the_same_with_us_and_its_session_is_recorded(client, tmp_path, receiver):
    """Requests are compared byte by byte, answers as the client has read them, piece by piece."""
    interpreter, script, variables = program(client)
    with Provider() as direct, Provider() as through, reserve_port() as port:
        addresses = {
            "ANTHROPIC_BASE_URL": direct.url,
            "OPENAI_BASE_URL": f"{direct.url}/v1",
            "GOOGLE_GEMINI_BASE_URL": direct.url,
        }
        first = RealAgent(Path(interpreter), tmp_path / "home-a").run(str(script), variables=variables | addresses)
        assert first.returncode == 0, first.stderr
        options = [item for name in UPSTREAMS for item in ("--upstream", f"{name}={through.url}")]
        agent = RealAgent(Path(interpreter), tmp_path / "home-b")
        second = agent.run_behind_gateway(port, options, str(script), variables=variables | server_of(receiver))
        assert second.returncode == 0, second.stderr
        assert first.stdout
        assert first.stdout == second.stdout
        seen = [
            [(item.method, same(item.path), headers(item), item.body) for item in p.requests] for p in (direct, through)
        ]
        assert len(seen[0]) == 2
        assert {item.version for item in direct.requests} == {"HTTP/1.1"}
        assert seen[0] == seen[1]
    requests = recorded_requests(receiver)
    assert len({span["session_id"] for span in requests}) == 1
    properties = [span["properties"] for span in requests]
    assert [(item["turn"], item["change"]) for item in properties] == [(1, "start"), (2, "append")]
    assert [item["tokens"] for item in properties] == [10, 10]
    assert {part["part"] for part in properties[1]["parts"]} == PARTS
