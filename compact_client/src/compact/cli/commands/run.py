"""The run command: start an agent behind the gateway."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from compact.agents.launch import ANY_COMMAND, Launch, find_launches
from compact.cli import exit_codes
from compact.cli.commands.gateway import NO_SERVER, gateway_settings
from compact.delivery.endpoint import configured_url, without_credentials
from compact.events.phrases import format_count
from compact.gateway.launcher import Lease, lease_gateway
from compact.gateway.settings import GatewaySettings
from compact.gateway.upstreams import PROVIDERS, UpstreamError

_SESSION_S = 3.0
_POLL_S = 0.1
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT")


@dataclass(frozen=True, slots=True)
class _Child:
    """The command to start, and what it needs to reach the gateway."""

    arguments: list[str]
    variables: Mapping[str, str]


def run(options: argparse.Namespace) -> int:
    """Start or join the gateway, run the agent, and print the address of its session."""
    launch, arguments = _parse_command(options.agent)
    executable = shutil.which(arguments[0])
    if executable is None:
        message = f"{launch.title} is not installed: there is no command {arguments[0]!r}."
        raise exit_codes.Stop(exit_codes.USAGE, message)
    settings = _settings(options, launch)
    wishes = {"http": options.http, "compact": bool(settings.compactor)}
    lease = lease_gateway(settings, _server(), {name: "1" for name, is_wanted in wishes.items() if is_wanted})
    try:
        child = _child(launch, [executable, *arguments[1:]], settings, lease)
        with _forwarded_signals() as forward:
            process = subprocess.Popen(child.arguments, env={**os.environ, **child.variables})  # noqa: S603
            forward(process)
            if options.open:
                threading.Thread(target=_open_page, args=[lease, process], daemon=True).start()
            code = process.wait()
        _print_page(lease, launch)
    finally:
        lease.close()
    return code if code >= 0 else 128 - code


def _parse_command(words: list[str]) -> tuple[Launch, list[str]]:
    if words[:1] == ["--"]:
        launch, arguments = ANY_COMMAND, words[1:]
    else:
        launch, arguments = find_launches().get(words[0] if words else "", ANY_COMMAND), words
        if arguments and launch is ANY_COMMAND:
            known = ", ".join(find_launches())
            message = f"{arguments[0]!r} is not one of {known}. For any other command, use: compactctl run -- COMMAND"
            raise exit_codes.Stop(exit_codes.USAGE, message)
    if not arguments:
        raise exit_codes.Stop(exit_codes.USAGE, "Name an agent, or a command after --. See compactctl run --help.")
    return launch, arguments


def _settings(options: argparse.Namespace, launch: Launch) -> GatewaySettings:
    """Return the settings of the gateway: the user's own upstreams, and those of the command line before them."""
    settings = gateway_settings(options, is_leased=True, agent=launch.name)
    addresses = dict(launch.upstreams(os.environ))
    for variable, target in launch.variables.items():
        value = os.environ.get(variable, "").rstrip("/")
        # A run inside a run has the variable from the outer one.
        own = value.removesuffix(target.path)
        if value and "/run/" not in value and own != PROVIDERS[target.upstream]:
            addresses[target.upstream] = own
    try:
        return replace(settings, addresses={**addresses, **settings.addresses})
    except UpstreamError as error:
        raise exit_codes.Stop(exit_codes.USAGE, str(error)) from None


def _child(launch: Launch, command: list[str], settings: GatewaySettings, lease: Lease) -> _Child:
    base = f"{lease.gateway.url}/run/{lease.label}"

    def address(upstream: str) -> str:
        return f"{base}/{upstream}" if upstream in PROVIDERS else f"{base}/custom/{upstream}"

    variables = {name: address(target.upstream) + target.path for name, target in launch.variables.items()}
    if not any(target.upstream in settings.addresses for target in launch.variables.values()):
        variables |= launch.first_party_variables
    variables |= launch.more_variables(address, os.environ)
    variables |= _proxy_exception()
    return _Child([command[0], *launch.arguments(address, os.environ), *command[1:]], variables)


def _proxy_exception() -> dict[str, str]:
    """Return variables that keep the way to the gateway off a proxy, if there is one. The gateway itself uses it."""
    if not any(name.lower() in {"http_proxy", "all_proxy"} and value for name, value in os.environ.items()):
        return {}
    own = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    value = ",".join(item for item in (own, "127.0.0.1", "localhost") if item)
    return {"no_proxy": value, "NO_PROXY": value}


@contextmanager
def _forwarded_signals() -> Iterator[Any]:
    """Pass signals to the agent. Ctrl-C in the terminal reaches it by itself, and must not end this command."""
    processes: list[subprocess.Popen[bytes]] = []

    def forward(number: int, frame: FrameType | None) -> None:
        for process in processes:
            process.send_signal(number)

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if not sys.stdin.isatty():
            forward(number, frame)

    numbers = [getattr(signal, name) for name in _FORWARDED if hasattr(signal, name)]
    previous = {number: signal.signal(number, forward) for number in numbers}
    previous[signal.SIGINT] = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield processes.append
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _server() -> str:
    return without_credentials(configured_url())


def _session(lease: Lease) -> dict[str, Any]:
    """Return the number of requests and the session of this run."""
    try:
        answer: dict[str, Any] = lease.gateway.get(f"/sessions/{lease.label}")
    except (OSError, ValueError):
        return {"requests": 0, "session": None}
    return answer


def _open_page(lease: Lease, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        session = _session(lease)["session"]
        if session and session.get("url"):
            webbrowser.open(session["url"])
            return
        time.sleep(_POLL_S * 5)


def _print_page(lease: Lease, launch: Launch) -> None:
    answer = _session(lease)
    if not answer["requests"]:
        reason = f"Settings of its own may name another address. {launch.hint}".rstrip()
        sys.stderr.write(f"\n{launch.title} sent nothing through the gateway. {reason}\n")
        return
    if compactions := answer.get("compactions"):
        # Not before: a line in the terminal would disturb the agent's own screen.
        removed = format_count(answer["saved_tokens"], "token")
        sys.stderr.write(f"\nCompacted {format_count(compactions, 'time')}: {removed} removed from prompts.\n")
    if not configured_url():
        sys.stderr.write(f"\n{NO_SERVER}\n")
        return
    deadline = time.monotonic() + _SESSION_S
    while not answer["session"] and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        answer = _session(lease)
    session = answer["session"]
    if session:
        sys.stderr.write(f"\nSession {session['session_id']}: {session.get('url', '')}\n")
    else:
        sys.stderr.write(f"\n{answer['requests']} requests were recorded. Their session is not known yet.\n")
