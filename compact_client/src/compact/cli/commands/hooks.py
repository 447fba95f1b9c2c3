"""The command hooks: install, uninstall, status, and the two that the hooks themselves run."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from compact.agents.hooks import Hooks
from compact.agents.jsonc import Unsafe
from compact.agents.registry import BY_NAME
from compact.cli import exit_codes, output, settings_file


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
    if options.scope not in agent.hooks.scopes:
        scopes = " and ".join(agent.hooks.scopes)
        raise exit_codes.Stop(
            exit_codes.USAGE, f"{agent.title} has no settings of the scope {options.scope}: {scopes}."
        )
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
    advice = f"Add the command `{command}` to your hooks yourself, or correct the file."
    text = settings_file.edit(path, lambda: settings_file.read(path), advice)
    changed = settings_file.edit(path, lambda: hooks.add(text, command), advice)
    key = options.key or os.environ.get("ARIADNE_API_KEY")
    if key:
        from compact.cli.hooks.deliver import save_settings

        save_settings(options.url, key)
    events = _names(hooks, changed)
    if changed == text:
        return _answer(options, path, "unchanged", f"The hooks are already in {path}.")
    backup = settings_file.write(path, text, changed)
    kept = f"The previous settings are in {backup.name}." if backup else ""
    note = "" if key else "Set ARIADNE_API_KEY before you start the agent, or run install again with --key."
    sentences = [f"Added hooks for {events} to {path}.", kept, note, hooks.next_step]
    return _answer(options, path, "installed", " ".join(filter(None, sentences)))


def _uninstall(hooks: Hooks, options: argparse.Namespace) -> int:
    path = hooks.settings_file(options.scope)
    text = settings_file.edit(path, lambda: settings_file.read(path))
    commands = list(settings_file.edit(path, lambda: hooks.installed(text)).values())
    if not commands:
        return _answer(options, path, "unchanged", f"There are no hooks of compactctl in {path}.")
    settings_file.edit(
        path,
        lambda: settings_file.uninstall(
            path,
            text,
            add=lambda old: hooks.add(old, commands[0]),
            remove=hooks.remove,
            is_installed=lambda old: bool(hooks.installed(old)),
        ),
    )
    return _answer(options, path, "uninstalled", f"Removed the hooks from {path}. Other hooks are unchanged.")


def _status(hooks: Hooks, options: argparse.Namespace) -> int:
    from compact.cli.hooks.deliver import settings

    rows = []
    for scope in hooks.scopes:
        file = hooks.settings_file(scope)
        try:
            text = settings_file.read(file)
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


def _answer(options: argparse.Namespace, path: Path, state: str, sentence: str) -> int:
    if options.json:
        output.document({"state": state, "file": str(path), "scope": options.scope})
    else:
        sys.stdout.write(sentence + "\n")
    return exit_codes.OK
