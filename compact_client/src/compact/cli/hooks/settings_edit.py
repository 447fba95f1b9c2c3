"""Add hooks to the settings of Claude Code, and remove them, without touching anything else.

Edits are insertions and deletions of text: key order, comments, indentation, line ends and other hooks stay as they
are. A file that cannot be edited this way raises `Unsafe`, and nothing is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from compact.cli.hooks.jsonc import Node, Unsafe, content_end, parse

EVENTS = ("PreCompact", "PostCompact", "SessionStart", "SessionEnd")
MARKER = "hooks run claude-code"
"""The part of the command by which our hooks are recognized."""
_TIMEOUT_S = 10
_INDENT = re.compile(r"\n([ \t]+)\S")


def add_hooks(text: str, command: str) -> str:
    """Return the settings with our hooks. Return the same text if they are there."""
    if not text.strip().strip("\ufeff"):
        return _dump({"hooks": {name: [_group(command)] for name in EVENTS}}, "  ") + "\n"
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
        return _delete_child(text, parse(text), "hooks")
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
        return _insert(text, root, "hooks", {name: [_group(command)]})
    assert hooks.members is not None
    groups = hooks.members.get(name)
    if groups is None:
        return _insert(text, hooks, name, [_group(command)])
    if groups.elements is None:
        raise Unsafe(f"hooks.{name} is not a list.")
    if command in _own_commands(groups.value):
        return text
    if _own_commands(groups.value):
        removed = _remove_one(text, name)
        assert removed is not None
        return _add_event(removed, name, command)
    return _insert(text, groups, None, _group(command))


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


def _insert(text: str, node: Node, key: str | None, value: Any) -> str:
    """Insert a value as the last one of an object or list, in the style of its neighbors."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text)
    is_inline = "\n" not in text[node.start : node.end] and bool(node.children or not unit)
    prefix = f"{json.dumps(key)}: " if key is not None else ""
    if is_inline:
        return _place(text, node, f"{prefix}{json.dumps(value)}", " " if node.children else "", "")
    outer = _indent_at(text, node.start)
    inner = _indent_at(text, node.starts[0]) if node.starts else outer + unit
    body = _dump(value, unit).replace("\n", f"{newline}{inner}")
    closing = "" if node.children else f"{newline}{outer}"
    return _place(text, node, f"{prefix}{body}", f"{newline}{inner}", closing)


def _place(text: str, node: Node, new: str, before: str, closing: str) -> str:
    """Put text before the closing bracket, after the last comment. The comma goes directly behind the last value."""
    end = max(content_end(text, node), node.start + 1)
    tail = text[end:] if not closing else closing + text[node.end - 1 :]
    if not node.children:
        return text[: node.start + 1] + text[node.start + 1 : end] + before + new + tail
    if node.has_trailing_comma:
        return f"{text[:end]}{before}{new},{tail}"
    last = node.children[-1].end
    return f"{text[:last]},{text[last:end]}{before}{new}{tail}"


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
            own = next(
                place for place, entry in enumerate(entries.children) if _own_commands([{"hooks": [entry.value]}])
            )
            return _delete_child(text, entries, own)
        if len(groups.children) > 1:
            return _delete_child(text, groups, index)
        return _delete_child(text, hooks, name)
    return None


def _delete_child(text: str, node: Node, child: str | int) -> str:
    """Delete a member or element, its comma, and the space before it."""
    index = list(node.members or ()).index(child) if isinstance(child, str) else child
    start, end = node.starts[index], node.children[index].end
    is_last = index == len(node.children) - 1
    if not is_last:
        following = node.starts[index + 1]
        return text[:start] + text[following:]
    if index == 0:
        inside = text[node.start + 1 : start] + text[end : node.end - 1]
        return text[: node.start + 1] + (inside if inside.strip(" \t\r\n,") else "") + text[node.end - 1 :]
    previous = node.children[index - 1].end
    between, rest = text[previous:start].rstrip(), text[end : node.end]
    if node.has_trailing_comma:
        rest = rest.replace(",", "", 1)
    else:
        # Keep comments behind the previous value, but not its comma.
        between = between.replace(",", "", 1)
    return text[:previous] + between + rest + text[node.end :]


def _unit(text: str) -> str:
    """Return one level of indentation, or an empty text for a file that is one line."""
    match = _INDENT.search(text)
    return match[1] if match else "" if "\n" not in text.strip() and len(text.strip()) > 2 else "  "


def _indent_at(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip())]


def _dump(value: Any, unit: str) -> str:
    return json.dumps(value, indent=unit or None, ensure_ascii=False)


def describe(events: Iterable[str]) -> str:
    """Return the events as a list in words."""
    return ", ".join(name for name in EVENTS if name in set(events))
