"""`compactctl run` and `compactctl gateway`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from compact.agents.codex.launch import LAUNCH as CODEX
from compact.agents.launch import find_launches
from compact.agents.opencode.launch import LAUNCH as OPENCODE
from compact.gateway.launcher import find_gateway
from ports import reserve_port
from receiver import Receiver
from wait import wait_until

SEND = """
import json, os, signal, sys, time, urllib.request
def send(variable="ANTHROPIC_BASE_URL", path="/v1/messages"):
    request = urllib.request.Request(os.environ[variable] + path, b"{}", {"x-api-key": "k"})
    return urllib.request.urlopen(request, timeout=30).status
"""


class Machine:
    """A home of its own, a port for the gateway, and a provider."""

    def __init__(self, home: Path, port: int, provider: Receiver) -> None:
        self.home = home
        self.port = port
        self.provider = provider
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ARIADNE_", "ANTHROPIC_", "OPENAI_")) and "proxy" not in name.lower()
        } | {"XDG_STATE_HOME": str(home / "state"), "HOME": str(home)}

    def start(self, *arguments: str, variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "compact.cli", *arguments],
            env={**self.environment, **(variables or {})}, cwd=self.home,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *arguments: str, code: str = "", variables: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        command = ["--", sys.executable, "-c", SEND + code] if code else []
        process = self.start(*arguments, *command, variables=variables)
        out, err = process.communicate(timeout=90)
        return process.returncode, out, err

    @property
    def gateway(self) -> list[str]:
        return ["run", "--port", str(self.port), "--upstream", f"anthropic={self.provider.url}"]

    def is_up(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=10):
                return True
        except (URLError, OSError):
            return False


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Receiver() as provider, reserve_port() as port:
        machine = Machine(tmp_path, port, provider)
        yield machine
        # A gateway that was started for an agent ends with it.
        assert wait_until(lambda: not machine.is_up(), timeout_s=40)


def test_a_command_reaches_its_provider_through_the_gateway(machine):
    """The command gets the addresses, its exit code is returned, and a missing server is explained."""
    code, out, err = machine.run(*machine.gateway, code="print(send(), os.environ['OPENAI_BASE_URL']); sys.exit(7)")
    assert code == 7
    assert out.startswith("200 http://127.0.0.1:")
    assert out.strip().endswith("/openai/v1")
    (request,) = machine.provider.requests
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == "k"
    assert "ARIADNE_URL is not set. Start a server with `make up`" in err


def test_the_address_of_the_user_stays_the_upstream(machine):
    """A variable that is set, for example to a company's proxy, decides where requests go."""
    own = {"ANTHROPIC_BASE_URL": f"{machine.provider.url}/company/"}
    code, _, err = machine.run("run", "--port", str(machine.port), code="send()", variables=own)
    assert (code, machine.provider.requests[0].path) == (0, "/company/v1/messages"), err


def test_several_agents_share_one_gateway_and_the_last_one_ends_it(machine):
    """A second run joins, and the gateway outlives the first."""
    waiting = "print(send(), flush=True); sys.stdin.readline(); print(send())"
    first = machine.start(*machine.gateway, "--", sys.executable, "-c", SEND + waiting)
    assert first.stdout is not None
    assert first.stdout.readline() == "200\n"
    pid = find_pid(machine)
    second = machine.start(*machine.gateway, "--", sys.executable, "-c", SEND + waiting)
    assert second.stdout is not None
    assert second.stdout.readline() == "200\n"
    assert find_pid(machine) == pid
    assert first.communicate("\n", timeout=60)[0] == "200\n"
    assert find_pid(machine) == pid
    assert second.communicate("\n", timeout=60)[0] == "200\n"


def find_pid(machine: Machine) -> int:
    with urlopen(f"http://127.0.0.1:{machine.port}/status", timeout=10) as answer:
        pid: int = json.load(answer)["pid"]
    return pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_agent(machine, number):
    """The agent decides what a signal means, and its exit code is returned."""
    code = f"signal.signal({int(number)}, lambda *_: sys.exit(9)); print('ready', flush=True); time.sleep(60)"
    process = machine.start(*machine.gateway, "--", sys.executable, "-c", SEND + code)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 9


def test_an_agent_that_dies_of_a_signal_has_the_exit_code_of_a_shell(machine):
    """128 and the number of the signal."""
    code, _, _ = machine.run(*machine.gateway, code="os.kill(os.getpid(), signal.SIGKILL)")
    assert code == 137


LONG = """
messages = [{"role": role, "content": "lorem ipsum dolor " * 60} for _ in range(20) for role in ("user", "assistant")]
body = {"model": "claude-opus-4-6", "max_tokens": 9, "messages": [*messages, {"role": "user", "content": "Now?"}]}
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode())
urllib.request.urlopen(request, timeout=60)
"""


def test_compact_mode_is_for_the_agents_of_its_own_runs(machine):
    """It does not join a gateway without it, and says at the end what was compacted."""
    variables = {"COMPACT_MAX_CONTEXT_TOKENS": "6000", "COMPACT_HARD_CAP_BUFFER": "200"}
    other = machine.start(*machine.gateway, "--", sys.executable, "-c", "input()")
    assert wait_until(machine.is_up, timeout_s=30)
    code, _, err = machine.run(*machine.gateway, "--compact", code=LONG, variables=variables)
    assert code == 0, err
    assert "Compacted 1 time: " in err
    code, _, err = machine.run(*machine.gateway, code=LONG, variables=variables)
    assert code == 0, err
    assert "Compacted" not in err
    other.communicate("\n", timeout=60)
    compacted, original = (len(json.loads(request.body)["messages"]) for request in machine.provider.requests)
    assert compacted < original == 41


def test_a_killed_gateway_is_replaced_while_the_agent_runs(machine):
    """The agent keeps its address. Its next request goes through a new gateway."""
    waiting = "print(send(), flush=True); sys.stdin.readline(); print(send())"
    process = machine.start(*machine.gateway, "--", sys.executable, "-c", SEND + waiting)
    assert process.stdout is not None
    assert process.stdout.readline() == "200\n"
    old = find_pid(machine)
    os.kill(old, signal.SIGKILL)
    assert wait_until(lambda: machine.is_up() and find_pid(machine) != old)
    assert process.communicate("\n", timeout=60)[0] == "200\n"


def test_a_program_that_is_no_gateway_of_this_user_gets_no_request(machine, tmp_path):
    """An agent's credentials go to no other program that listens on the port."""
    status = {"service": "ariadne-gateway", "address": f"http://127.0.0.1:{machine.port}", "proof": "0" * 64,
              "upstreams": {}, "server": "", "is_draining": False}  # fmt: skip
    requests: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        requests.append(connection.recv(65536))
        body = json.dumps(status).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))
        connection.close()

    with closing(socket.create_server(("127.0.0.1", machine.port))) as server:

        def serve() -> None:
            while True:
                try:
                    answer(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        code, out, err = machine.run(*machine.gateway, code="print(send())")
        server.shutdown(socket.SHUT_RDWR)
    assert (code, out) == (0, "200\n"), err
    assert len(machine.provider.requests) == 1
    assert not any(b"x-api-key" in request.lower() for request in requests)


def test_the_way_to_the_gateway_is_not_through_a_proxy(machine):
    """With a proxy in the environment, the agent still reaches the gateway directly."""
    proxy = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "NO_PROXY": "example.com"}
    code, out, err = machine.run(*machine.gateway, code="print(send(), os.environ['NO_PROXY'])", variables=proxy)
    assert (code, out) == (0, "200 example.com,127.0.0.1,localhost\n"), err


def test_an_agent_that_sends_nothing_is_reported(machine):
    """An agent whose own settings name another address is reported at the end."""
    code, _, err = machine.run(*machine.gateway, code="pass")
    assert code == 0
    assert "sent nothing through the gateway" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Name an agent"),
        (["run", "vim"], "'vim' is not one of aider, claude"),
        (["run", "--", "no-such-command"], "there is no command 'no-such-command'"),
        (["run", "--upstream", "anthropic", "--", "true"], "--upstream needs NAME=URL"),
        (["run", "--upstream", "a=ftp://x", "--", "true"], "must start with http:// or https://"),
        (["run", "--upstream", "a=https://u:p@x", "--", "true"], "must not contain credentials"),
        (["gateway", "--host", "0.0.0.0"], "it needs --token"),
    ],
)
def test_wrong_command_lines(tmp_path, arguments, message):
    """Each is exit code 2 and one line."""
    process = subprocess.run(
        [sys.executable, "-m", "compact.cli", *arguments],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stderr.count("\n") == 1


def test_status_and_upgrade(machine):
    """A gateway in the foreground is shown, upgraded and stopped."""
    process = machine.start("gateway", "--port", str(machine.port), "--upstream", f"local={machine.provider.url}")
    assert wait_until(machine.is_up)
    code, out, err = machine.run("gateway", "--port", str(machine.port), "--status", "--json")
    assert code == 0, err
    status = json.loads(out)
    assert status["pid"] == process.pid
    assert status["upstreams"]["local"] == machine.provider.url
    assert "proof" not in status
    code, out, err = machine.run("gateway", "--port", str(machine.port), "--upgrade")
    assert (code, f"Process {process.pid} ends after its streams." in out) == (0, True), err
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0
    code, _, err = machine.run("gateway", "--port", str(machine.port), "--status")
    assert (code, "No gateway of this user answers" in err) == (4, True)


def test_a_gateway_of_another_key_is_not_found(machine, tmp_path, monkeypatch):
    """Without the key of the user, the proof does not match."""
    process = machine.start("gateway", "--port", str(machine.port))
    assert wait_until(machine.is_up)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert find_gateway("127.0.0.1", machine.port) is not None
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert find_gateway("127.0.0.1", machine.port) is None
    process.terminate()
    process.communicate(timeout=60)


def address(upstream: str) -> str:
    return f"http://127.0.0.1:4319/run/l/{upstream}"


def codex(home: Path, config: str = "", login: Any = None) -> tuple[list[str], dict[str, str]]:
    (home / "config.toml").write_text(config)
    (home / "auth.json").write_text(json.dumps(login))
    environment = {"CODEX_HOME": str(home)}
    return list(CODEX.arguments(address, environment)), dict(CODEX.upstreams(environment))


def test_codex_is_started_for_its_login_and_its_provider(tmp_path):
    """An API key, a ChatGPT account and a provider in the settings each have another address."""
    key = ["-c", 'openai_base_url="http://127.0.0.1:4319/run/l/openai/v1"']
    assert codex(tmp_path) == (key, {})
    assert codex(tmp_path, login={"OPENAI_API_KEY": "k", "tokens": None}) == (key, {})
    chatgpt = ["-c", 'openai_base_url="http://127.0.0.1:4319/run/l/chatgpt"']
    assert codex(tmp_path, login={"OPENAI_API_KEY": None, "tokens": {"id_token": "t"}}) == (chatgpt, {})
    own = 'model_provider = "local"\n[model_providers.local]\nbase_url = "http://127.0.0.1:1/v1"'
    custom = ["-c", 'model_providers.local.base_url="http://127.0.0.1:4319/run/l/local"']
    assert codex(tmp_path, own) == (custom, {"local": "http://127.0.0.1:1/v1"})
    assert codex(tmp_path, "openai_base_url = 'https://a/v1'") == (key, {"openai": "https://a/v1"})
    assert codex(tmp_path, "not toml") == (key, {})


def test_opencode_keeps_the_settings_of_its_variable():
    """Addresses are added to what the user has in the variable, and do not replace it."""
    own = {"provider": {"openai": {"options": {"baseURL": "https://own"}}}, "theme": "x"}
    variables = OPENCODE.more_variables(address, {"OPENCODE_CONFIG_CONTENT": json.dumps(own)})
    config = json.loads(variables["OPENCODE_CONFIG_CONTENT"])
    assert config["theme"] == "x"
    assert config["provider"]["openai"]["options"]["baseURL"] == "https://own"
    assert config["provider"]["anthropic"]["options"]["baseURL"] == address("anthropic") + "/v1"


def test_the_first_party_variable_is_for_anthropics_own_address_only(machine, tmp_path):
    """Claude Code takes the gateway for Anthropic only if that is its upstream."""
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    claude = bin_directory / "claude"
    claude.write_text('#!/bin/sh\necho "$_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL $ANTHROPIC_BASE_URL $1"\n')
    claude.chmod(0o755)
    path = {"PATH": f"{bin_directory}:{os.environ['PATH']}"}
    _, out, _ = machine.run("run", "--port", str(machine.port), "claude", "--help", variables=path)
    assert out.startswith("1 http://127.0.0.1:")
    assert out.endswith("/anthropic --help\n")
    _, out, _ = machine.run(*machine.gateway, "claude", "--help", variables=path)
    assert out.startswith(" http://127.0.0.1:")


def test_each_agent_has_a_command():
    """The agents of the documentation can be started."""
    assert set(find_launches()) == {"aider", "claude", "codex", "gemini", "opencode", "pi"}
