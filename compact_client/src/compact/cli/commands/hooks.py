"""The command hooks: install, uninstall, status, and the two that the hooks themselves run."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

from compact.cli import exit_codes, output
from compact.cli.hooks import settings_edit
from compact.cli.hooks.jsonc import Unsafe

SCOPES = ("user", "project", "local")


def hooks(options: argparse.Namespace) -> int:
    """Run the action."""
    if options.action == "run":
        from compact.cli.hooks.run import run

        return run()
    if options.action == "deliver":
        from compact.cli.hooks.deliver import deliver

        return deliver()
    path = settings_path(options.scope)
    actions = {"install": _install, "uninstall": _uninstall, "status": _status}
    return actions[options.action](path, options)


def settings_path(scope: str) -> Path:
    """Return the settings file of a scope."""
    if scope == "user":
        home = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(home).expanduser() if home else Path.home() / ".claude") / "settings.json"
    return Path.cwd() / ".claude" / ("settings.json" if scope == "project" else "settings.local.json")


def hook_command(scope: str) -> str:
    """Return the command of the hooks. Settings that a team shares must not name a path of this machine."""
    if scope == "project":
        return f"compactctl {settings_edit.MARKER}"
    script = Path(sys.executable).with_name("compactctl")
    program = shlex.quote(str(script)) if script.is_file() else f"{shlex.quote(sys.executable)} -m compact.cli"
    return f"{program} {settings_edit.MARKER}"


def _install(path: Path, options: argparse.Namespace) -> int:
    command = hook_command(options.scope)
    text = _edit(path, lambda: _read(path), command)
    changed = _edit(path, lambda: settings_edit.add_hooks(text, command), command)
    key = options.key or os.environ.get("ARIADNE_API_KEY")
    if key:
        from compact.cli.hooks.deliver import save_settings

        save_settings(options.url, key)
    events = settings_edit.describe(settings_edit.installed_events(changed))
    if changed == text:
        return _answer(options, path, "unchanged", f"The hooks are already in {path}.")
    backup = _write(path, text, changed)
    kept = f" The previous settings are in {backup.name}." if backup else ""
    note = "" if key else " Set ARIADNE_API_KEY before you start the agent, or run install again with --key."
    return _answer(options, path, "installed", f"Added hooks for {events} to {path}.{kept}{note}")


def _uninstall(path: Path, options: argparse.Namespace) -> int:
    text = _edit(path, lambda: _read(path), "")
    changed = _edit(path, lambda: settings_edit.remove_hooks(text), "")
    if changed == text:
        return _answer(options, path, "unchanged", f"There are no hooks of compactctl in {path}.")
    _write(path, text, changed)
    return _answer(options, path, "uninstalled", f"Removed the hooks from {path}. Other hooks are unchanged.")


def _status(path: Path, options: argparse.Namespace) -> int:
    from compact.cli.hooks.deliver import settings

    rows = []
    for scope in SCOPES:
        file = settings_path(scope)
        try:
            events = sorted(settings_edit.installed_events(_read(file)))
            state = settings_edit.describe(events) if events else "not installed"
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


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise Unsafe(f"{path} is not UTF-8.") from None


def _edit(path: Path, change: Callable[[], str], command: str) -> str:
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
    if old:
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
