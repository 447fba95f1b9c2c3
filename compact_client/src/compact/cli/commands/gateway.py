"""The gateway command: run a gateway in the foreground, or show, or upgrade, the one that runs."""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from compact.cli import exit_codes, output
from compact.cli.parser import installed_version
from compact.config.sources import resolve
from compact.delivery.endpoint import configured_url
from compact.exceptions import CompactError
from compact.gateway.launcher import RunningGateway, find_gateway
from compact.gateway.settings import COMPACTOR, RECORDER, GatewaySettings
from compact.gateway.upstreams import UpstreamError

NO_SERVER = (
    "Nothing is recorded, because ARIADNE_URL is not set. Start a server with `make up` (or `ariadne-server`), "
    "and export the two lines that it prints."
)
_UPGRADE_S = 30.0


def gateway(options: argparse.Namespace) -> int:
    """Run the gateway in place of this process, which keeps its memory small."""
    token = options.token or os.environ.get("ARIADNE_GATEWAY_TOKEN", "")
    if options.status or options.upgrade:
        running = find_gateway(options.host, options.port, token)
        if running is None:
            address = f"{options.host}:{options.port}"
            raise exit_codes.Stop(exit_codes.UNREACHABLE, f"No gateway of this user answers at {address}.")
        return _upgrade(running, options, token) if options.upgrade else _print_status(running, is_json=options.json)
    settings = gateway_settings(options, token=token)
    if not settings.is_loopback and not token:
        message = f"--host {options.host} is not on this machine only, so it needs --token or ARIADNE_GATEWAY_TOKEN."
        raise exit_codes.Stop(exit_codes.USAGE, message)
    _print_addresses(settings, f"http://{options.host}:{options.port}{'/token/TOKEN' if token else ''}")
    return _replace_process(settings)


def _print_addresses(settings: GatewaySettings, base: str) -> None:
    for name, path in (("anthropic", ""), ("openai", "/v1"), ("gemini", ""), *((n, "") for n in settings.addresses)):
        prefix = name if name in {"anthropic", "openai", "gemini"} else f"custom/{name}"
        sys.stderr.write(f"{name:<10} {base}/{prefix}{path}  →  {settings.upstreams[name].url}\n")
    if settings.compactor:
        scope = "all agents" if settings.compact_scope == "all" else "the agents in compact.yaml"
        sys.stderr.write(f"Compact mode for {scope}.\n")
    if not settings.recorder:
        sys.stderr.write(f"{NO_SERVER}\n")
    sys.stderr.flush()


def _replace_process(settings: GatewaySettings) -> NoReturn:
    environment = dict(os.environ)
    settings.write(environment)
    os.execve(sys.executable, [sys.executable, "-m", "compact.gateway"], environment)  # noqa: S606


def gateway_settings(
    options: argparse.Namespace, *, token: str = "", is_leased: bool = False, agent: str = ""
) -> GatewaySettings:
    """Return the settings of a command line. `agent` is the name after `run`."""
    addresses = {}
    for item in options.upstream:
        name, equals, url = item.partition("=")
        if not equals:
            raise exit_codes.Stop(exit_codes.USAGE, f"--upstream needs NAME=URL, not {item!r}.")
        addresses[name] = url
    try:
        return GatewaySettings(
            host=options.host,
            port=options.port,
            addresses=addresses,
            token=token,
            is_http_only=options.http and not is_leased,
            recorder=RECORDER if configured_url() else (),
            is_leased=is_leased,
            version=installed_version(),
            **_compact_settings(options, is_leased=is_leased, agent=agent),
        )
    except UpstreamError as error:
        raise exit_codes.Stop(exit_codes.USAGE, str(error)) from None


def _compact_settings(options: argparse.Namespace, *, is_leased: bool, agent: str) -> dict[str, Any]:
    """Return the settings of compact mode, or none if nothing is compacted."""
    try:
        resolved = resolve()
    except CompactError:
        if not options.compact:
            return {}  # The settings are of no concern to a gateway that only records.
        raise
    listed = resolved.settings.gateway.compact
    is_listed = any(name == agent or name.startswith(f"{agent}-") for name in listed) if is_leased else bool(listed)
    if not (options.compact or is_listed):
        return {}
    # Relative paths in the settings depend on the directory.
    profile = hashlib.sha256(f"{Path.cwd()}\n{resolved.settings!r}".encode()).hexdigest()[:16]
    return {
        "compactor": COMPACTOR,
        "compact_scope": "runs" if is_leased else "all" if options.compact else "listed",
        "compact_profile": profile,
        "deadline_s": resolved.settings.gateway.deadline_s,
    }


def _print_status(running: RunningGateway, *, is_json: bool) -> int:
    status = {key: value for key, value in running.status.items() if key != "proof"}
    if is_json:
        output.document(status)
        return exit_codes.OK
    for key in ("address", "version", "pid", "uptime_s", "is_draining", "server", "connections", "clients", "requests"):
        sys.stdout.write(f"{key:<12} {status[key]}\n")
    recorder = status["recorder"]
    sys.stdout.write(f"{'recorder':<12} pid {recorder['pid']}, {recorder['restarts']} restarts\n")
    sys.stdout.write(f"{'gaps':<12} {status['gaps']}\n")
    compactor = status["compactor"]
    if compactor["scope"]:
        sys.stdout.write(f"{'compactor':<12} pid {compactor['pid']}, {compactor['restarts']} restarts\n")
        sys.stdout.write(f"{'compactions':<12} {status['compactions']}\n")
    for name, url in status["upstreams"].items():
        sys.stdout.write(f"{'upstream':<12} {name} → {url}\n")
    return exit_codes.OK


def _upgrade(running: RunningGateway, options: argparse.Namespace, token: str) -> int:
    """Let the gateway start its program again, and wait until the new process answers."""
    old = running.status["pid"]
    os.kill(old, signal.SIGUSR2)
    deadline = time.monotonic() + _UPGRADE_S
    while time.monotonic() < deadline:
        current = find_gateway(options.host, options.port, token)
        if current is not None and current.status["pid"] != old:
            sys.stdout.write(f"Process {current.status['pid']} took over. Process {old} ends after its streams.\n")
            return exit_codes.OK
        time.sleep(0.1)
    raise exit_codes.Stop(exit_codes.FAILED, f"Process {old} did not start a new one. Its own output says why.")
