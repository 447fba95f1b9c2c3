"""Add hooks to the settings of Claude Code, and remove them, without touching anything else.

Edits are insertions and deletions of text: key order, comments, indentation, line ends and other hooks stay as they
are. A file that cannot be edited this way raises `Unsafe`, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compact.agents.claude_code import NAME
from compact.agents.jsonc import Node, Unsafe, delete_child, dump, insert, parse

EVENTS = ("PreCompact", "PostCompact", "SessionStart", "SessionEnd")
MARKER = f"hooks run {NAME}"
"""The part of the command by which our hooks are recognized."""
_TIMEOUT_S = 10


def add_hooks(text: str, command: str) -> str:
    """Return the settings with our hooks. Return the same text if they are there."""
    if not text.strip().strip("\ufeff"):
        return dump({"hooks": {name: [_group(command)] for name in EVENTS}}, "  ") + "\n"
    for name in EVENTS:
        text = _add_event(text, name, command)
    return text


def remove_hooks(text: str) -> str:
    """Return the settings without our hooks, and without the lists that become empty."""
    if not text.strip():
        return text
    for name in EVENTS:
        while (changed := _remove_one(text, name)) is not None:
            text = changed
    hooks = _hooks(parse(text))
    if hooks is not None and not hooks.members:
        return delete_child(text, parse(text), "hooks")
    return text


def installed_events(text: str) -> dict[str, str]:
    """Return the command of our hook for each event that has one."""
    if not text.strip().strip("\ufeff"):
        return {}
    hooks = _hooks(parse(text))
    members = hooks.members if hooks is not None and hooks.members else {}
    commands = {}
    for name, groups in members.items():
        for command in _own_commands(groups.value):
            commands[name] = command
    return commands


def _add_event(text: str, name: str, command: str) -> str:
    root = parse(text)
    if root.members is None:
        raise Unsafe("The settings are not a JSON object.")
    hooks = _hooks(root)
    if hooks is None:
        return insert(text, root, "hooks", {name: [_group(command)]})
    assert hooks.members is not None
    groups = hooks.members.get(name)
    if groups is None:
        return insert(text, hooks, name, [_group(command)])
    if groups.elements is None:
        raise Unsafe(f"hooks.{name} is not a list.")
    if command in _own_commands(groups.value):
        return text
    if _own_commands(groups.value):
        removed = _remove_one(text, name)
        assert removed is not None
        return _add_event(removed, name, command)
    return insert(text, groups, None, _group(command))


def _hooks(root: Node) -> Node | None:
    hooks = (root.members or {}).get("hooks")
    if hooks is not None and hooks.members is None:
        raise Unsafe("`hooks` is not an object.")
    return hooks


def _own_commands(groups: Any) -> list[str]:
    lists = [group.get("hooks") for group in groups if isinstance(group, Mapping)] if isinstance(groups, list) else []
    entries = [entry for entries in lists if isinstance(entries, list) for entry in entries]
    commands = [str(entry.get("command")) for entry in entries if isinstance(entry, Mapping)]
    return [command for command in commands if MARKER in command]


def _group(command: str) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": command, "timeout": _TIMEOUT_S}]}


def _remove_one(text: str, name: str) -> str | None:
    """Remove one of our hooks, with its group or its list if nothing else is in it. Return None if there is none."""
    hooks = _hooks(parse(text))
    groups = (hooks.members or {}).get(name) if hooks is not None else None
    if hooks is None or groups is None:
        return None
    for index, group in enumerate(groups.elements or ()):
        if not _own_commands([group.value]):
            continue
        entries = (group.members or {})["hooks"]
        if len(entries.children) > 1:
            return delete_child(text, entries, _own_index(entries))
        if len(groups.children) > 1:
            return delete_child(text, groups, index)
        return delete_child(text, hooks, name)
    return None


def _own_index(entries: Node) -> int:
    return next(index for index, entry in enumerate(entries.children) if _own_commands([{"hooks": [entry.value]}]))
