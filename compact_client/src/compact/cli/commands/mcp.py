"""The mcp command: serve local session logs to an agent over MCP, and register the server with the agent."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from compact.agents.registry import BY_NAME
from compact.cli import exit_codes, extras, output

_NAME = "ariadne"


def mcp(options: argparse.Namespace) -> int:
    """Serve over stdio, or change or show the registration."""
    if options.action == "serve":
        return _serve(options)
    agent = BY_NAME[options.agent]
    settings = agent.mcp
    assert settings is not None
    file = Path(options.settings).expanduser() if options.settings else settings.settings_file(options.scope)
    text = file.read_bytes().decode("utf-8") if file.exists() else ""
    if options.action == "status":
        return _print_status(file, settings.installed(text), options)
    changed = settings.add(text, _server(options)) if options.action == "install" else settings.remove(text)
    if changed != text:
        _write(file, changed)
    if options.json:
        output.document({"file": str(file), "changed": changed != text, "server": settings.installed(changed)})
    elif options.action == "install":
        state = "Registered" if changed != text else "Already registered"
        sys.stdout.write(f"{state} the MCP server `{_NAME}` in {file}. Restart {agent.title} to use it.\n")
    else:
        state = "Removed" if changed != text else "There was no"
        sys.stdout.write(f"{state} MCP server `{_NAME}` in {file}.\n")
    return exit_codes.OK


def _serve(options: argparse.Namespace) -> int:
    extras.require("mcp", extra="mcp")
    from compact.cli.mcp.server import build_server

    directory = None if options.all_projects else Path(options.directory or ".").expanduser().resolve()
    build_server(directory).run("stdio")
    return exit_codes.OK


def _server(options: argparse.Namespace) -> dict[str, Any]:
    command = shutil.which("compactctl")
    call = [command] if command else [sys.executable, "-m", "compact.cli"]
    arguments = [*call[1:], "mcp"]
    if options.directory:
        arguments += ["--directory", str(Path(options.directory).expanduser().resolve())]
    if options.all_projects:
        arguments.append("--all-projects")
    return {"type": "stdio", "command": call[0], "args": arguments}


def _print_status(file: Path, server: dict[str, Any] | None, options: argparse.Namespace) -> int:
    if options.json:
        output.document({"file": str(file), "server": server})
    elif server is None:
        sys.stdout.write(f"Not registered in {file}.\n")
    else:
        command = " ".join([str(server.get("command")), *map(str, server.get("args") or ())])
        sys.stdout.write(f"Registered in {file}: {command}\n")
    return exit_codes.OK if server is not None else exit_codes.FAILED


def _write(file: Path, text: str) -> None:
    """Replace a file atomically, with the same permissions. A link keeps pointing to its target."""
    target = file.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(text.encode())
            out.flush()
            os.fsync(out.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        Path(temporary).replace(target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
