"""The command hooks: install, uninstall, status, and the two that the hooks themselves run."""

from __future__ import annotations

import argparse
import glob
import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from compact.agents.hooks import Hooks
from compact.agents.jsonc import Unsafe
from compact.agents.registry import BY_NAME
from compact.cli import exit_codes, output

_T = TypeVar("_T")
SCOPES = ("user", "project", "local")


def hooks(options: argparse.Namespace) -> int:
    """Run the action."""
    agent = BY_NAME[options.agent]
    if options.action == "run":
        from compact.cli.hooks.run import run

        return run(agent.name)
    if options.action == "deliver":
        from compact.cli.hooks.deliver import deliver

        return deliver()
    assert agent.hooks is not None
    actions = {"install": _install, "uninstall": _uninstall, "status": _status}
    return actions[options.action](agent.hooks, options)


def hook_command(hooks: Hooks, scope: str) -> str:
    """Return the command of the hooks. Settings that a team shares must not name a path of this machine."""
    if scope == "project":
        return f"compactctl {hooks.call}"
    script = Path(sys.executable).with_name("compactctl")
    program = shlex.quote(str(script)) if script.is_file() else f"{shlex.quote(sys.executable)} -m compact.cli"
    return f"{program} {hooks.call}"


def _install(hooks: Hooks, options: argparse.Namespace) -> int:
    path = hooks.settings_file(options.scope)
    command = hook_command(hooks, options.scope)
    text = _edit(path, lambda: _read(path), command)
    changed = _edit(path, lambda: hooks.add(text, command), command)
    key = options.key or os.environ.get("ARIADNE_API_KEY")
    if key:
        from compact.cli.hooks.deliver import save_settings

        save_settings(options.url, key)
    events = _names(hooks, changed)
    if changed == text:
        return _answer(options, path, "unchanged", f"The hooks are already in {path}.")
    backup = _write(path, text, changed)
    kept = f" The previous settings are in {backup.name}." if backup else ""
    note = "" if key else " Set ARIADNE_API_KEY before you start the agent, or run install again with --key."
    return _answer(options, path, "installed", f"Added hooks for {events} to {path}.{kept}{note}")


def _uninstall(hooks: Hooks, options: argparse.Namespace) -> int:
    path = hooks.settings_file(options.scope)
    text = _edit(path, lambda: _read(path), "")
    backup = _find_backup(hooks, path, text)
    changed = _edit(path, lambda: hooks.remove(text), "") if backup is None else backup
    if changed == text:
        return _answer(options, path, "unchanged", f"There are no hooks of compactctl in {path}.")
    _write(path, text, changed)
    return _answer(options, path, "uninstalled", f"Removed the hooks from {path}. Other hooks are unchanged.")


def _find_backup(hooks: Hooks, path: Path, text: str) -> str | None:
    """Return the settings from before `install` if nothing else has changed since, or None.

    The text alone does not show whether an empty list or object was there before.
    """
    commands = set(_edit(path, lambda: hooks.installed(text), "").values())
    if len(commands) != 1:
        return None
    command = commands.pop()
    target = path.resolve()
    for file in sorted(target.parent.glob(f"{glob.escape(target.name)}.*.bak"), reverse=True):
        try:
            old = _read(file)
            if not hooks.installed(old) and hooks.add(old, command) == text:
                return old
        except (OSError, Unsafe):
            continue
    return None


def _status(hooks: Hooks, options: argparse.Namespace) -> int:
    from compact.cli.hooks.deliver import settings

    rows = []
    for scope in SCOPES:
        file = hooks.settings_file(scope)
        try:
            text = _read(file)
            events = sorted(hooks.installed(text))
            state = _names(hooks, text) or "not installed"
        except Unsafe as error:
            events, state = [], f"unreadable: {error}"
        rows.append({"scope": scope, "file": str(file), "events": events, "state": state})
    url, key = settings()
    if options.json:
        output.document({"hooks": rows, "url": url, "has_key": bool(key)})
    else:
        for row in rows:
            sys.stdout.write(f"{row['scope']:<8} {row['state']:<56} {row['file']}\n")
        sys.stdout.write(f"server   {url} ({'ingest key set' if key else 'no ingest key: nothing is sent'})\n")
    is_installed = any(row["events"] for row in rows)
    return exit_codes.OK if is_installed else exit_codes.FAILED


def _names(hooks: Hooks, text: str) -> str:
    """Return the events that have our hook, as a list in words."""
    installed = hooks.installed(text)
    return ", ".join(name for name in hooks.events if name in installed)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise Unsafe(f"{path} is not UTF-8.") from None


def _edit(path: Path, change: Callable[[], _T], command: str) -> _T:
    try:
        return change()
    except Unsafe as error:
        advice = f" Add the command `{command}` to your hooks yourself, or correct the file." if command else ""
        raise exit_codes.Stop(exit_codes.FAILED, f"{path} was not changed. {error}{advice}") from None


def _write(path: Path, old: str, new: str) -> Path | None:
    """Replace the file atomically, with the old content in a backup beside it."""
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    backup = None
    if target.exists():
        backup = target.with_name(f"{target.name}.{time.strftime('%Y%m%d-%H%M%S')}.bak")
        backup.write_bytes(old.encode())
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    temporary.write_bytes(new.encode())
    if target.exists():
        temporary.chmod(target.stat().st_mode & 0o777)
    temporary.replace(target)
    return backup


def _answer(options: argparse.Namespace, path: Path, state: str, sentence: str) -> int:
    if options.json:
        output.document({"state": state, "file": str(path), "scope": options.scope})
    else:
        sys.stdout.write(sentence + "\n")
    return exit_codes.OK
