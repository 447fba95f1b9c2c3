"""The mcp command: serve local session logs to an agent over MCP, and register the server with the agent."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from compact.agents.agent import McpSettings
from compact.agents.json_servers import NAME
from compact.agents.registry import BY_NAME
from compact.cli import exit_codes, extras, output, settings_file


def mcp(options: argparse.Namespace) -> int:
    """Serve over stdio, or change or show the registration."""
    if options.action == "serve":
        return _serve(options)
    agent = BY_NAME[options.agent]
    settings = agent.mcp
    assert settings is not None
    file = Path(options.settings).expanduser() if options.settings else settings.settings_file(options.scope)
    text = settings_file.edit(file, lambda: settings_file.read(file))
    if options.action == "status":
        return _print_status(file, settings_file.edit(file, lambda: settings.installed(text)), options)
    change = _install if options.action == "install" else _uninstall
    changed = settings_file.edit(file, lambda: change(settings, file, text, options))
    if options.json:
        output.document({"file": str(file), "changed": changed != text, "server": settings.installed(changed)})
    elif options.action == "install":
        state = "Registered" if changed != text else "Already registered"
        sys.stdout.write(f"{state} the MCP server `{NAME}` in {file}. Restart {agent.title} to use it.\n")
    else:
        state = "Removed the" if changed != text else "There was no"
        sys.stdout.write(f"{state} MCP server `{NAME}` in {file}.\n")
    return exit_codes.OK


def _install(settings: McpSettings, file: Path, text: str, options: argparse.Namespace) -> str:
    changed = settings.add(text, settings.entry(_command(options)))
    if changed != text:
        settings_file.write(file, text, changed)
    return changed


def _uninstall(settings: McpSettings, file: Path, text: str, options: argparse.Namespace) -> str:
    server = settings.installed(text)
    if server is None:
        return text
    return settings_file.uninstall(
        file,
        text,
        add=lambda old: settings.add(old, server),
        remove=settings.remove,
        is_installed=lambda old: settings.installed(old) is not None,
    )


def _serve(options: argparse.Namespace) -> int:
    extras.require("mcp", extra="mcp")
    from compact.cli.mcp.server import build_server

    directory = None if options.all_projects else Path(options.directory or ".").expanduser().resolve()
    build_server(directory).run("stdio")
    return exit_codes.OK


def _command(options: argparse.Namespace) -> list[str]:
    """Return the command that an agent starts. Settings that a team shares must not name a path of this machine."""
    installed = "compactctl" if options.scope == "project" else shutil.which("compactctl")
    command = [*([installed] if installed else [sys.executable, "-m", "compact.cli"]), "mcp"]
    if options.directory:
        command += ["--directory", str(Path(options.directory).expanduser().resolve())]
    if options.all_projects:
        command.append("--all-projects")
    return command


def _print_status(file: Path, server: dict[str, Any] | None, options: argparse.Namespace) -> int:
    if options.json:
        output.document({"file": str(file), "server": server})
    elif server is None:
        sys.stdout.write(f"Not registered in {file}.\n")
    else:
        command = server.get("command")
        words = [*(command if isinstance(command, list) else [command]), *(server.get("args") or ())]
        sys.stdout.write(f"Registered in {file}: {shlex.join(map(str, words))}\n")
    return exit_codes.OK if server is not None else exit_codes.FAILED
