"""Add hooks to the settings of an agent, and remove them, without touching anything else.

Claude Code and Codex have the same format. Edits are insertions and deletions of text: key order, comments,
indentation, line ends and other hooks stay as they are. A file that cannot be edited this way raises `Unsafe`, and
nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compact.agents.jsonc import Node, Unsafe, delete_child, dump, insert, parse


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The hooks of one agent in its settings."""

    timeouts_s: Mapping[str, int]
    """The seconds after which the agent ends the hook of each event."""
    marker: str
    """The part of the command by which our hooks are recognized."""

    @property
    def events(self) -> tuple[str, ...]:
        """The events with a hook of ours."""
        return tuple(self.timeouts_s)

    def add(self, text: str, command: str) -> str:
        """Return the settings with our hooks. Return the same text if they are there."""
        if not text.strip().strip("\ufeff"):
            return dump({"hooks": {name: [self._group(name, command)] for name in self.events}}, "  ") + "\n"
        for name in self.events:
            text = self._add_event(text, name, command)
        return text

    def remove(self, text: str) -> str:
        """Return the settings without our hooks, and without the lists that become empty."""
        if not text.strip():
            return text
        for name in self.events:
            while (changed := self._remove_one(text, name)) is not None:
                text = changed
        hooks = _hooks(parse(text))
        if hooks is not None and not hooks.members:
            return delete_child(text, parse(text), "hooks")
        return text

    def find_installed(self, text: str) -> dict[str, str]:
        """Return the command of our hook for each event that has one."""
        if not text.strip().strip("\ufeff"):
            return {}
        hooks = _hooks(parse(text))
        members = hooks.members if hooks is not None and hooks.members else {}
        commands = {}
        for name, groups in members.items():
            for command in self._own_commands(groups.value):
                commands[name] = command
        return commands

    def _add_event(self, text: str, name: str, command: str) -> str:
        root = parse(text)
        if root.members is None:
            raise Unsafe("The settings are not a JSON object.")
        hooks = _hooks(root)
        if hooks is None:
            return insert(text, root, "hooks", {name: [self._group(name, command)]})
        assert hooks.members is not None
        groups = hooks.members.get(name)
        if groups is None:
            return insert(text, hooks, name, [self._group(name, command)])
        if groups.elements is None:
            raise Unsafe(f"hooks.{name} is not a list.")
        if command in self._own_commands(groups.value):
            return text
        if self._own_commands(groups.value):
            removed = self._remove_one(text, name)
            assert removed is not None
            return self._add_event(removed, name, command)
        return insert(text, groups, None, self._group(name, command))

    def _own_commands(self, groups: Any) -> list[str]:
        lists = (
            [group.get("hooks") for group in groups if isinstance(group, Mapping)] if isinstance(groups, list) else []
        )
        entries = [entry for entries in lists if isinstance(entries, list) for entry in entries]
        commands = [str(entry.get("command")) for entry in entries if isinstance(entry, Mapping)]
        return [command for command in commands if self.marker in command]

    def _remove_one(self, text: str, name: str) -> str | None:
        """Remove one of our hooks, with its group or list if nothing else is in it. Return None if there is none."""
        hooks = _hooks(parse(text))
        groups = (hooks.members or {}).get(name) if hooks is not None else None
        if hooks is None or groups is None:
            return None
        for index, group in enumerate(groups.elements or ()):
            if not self._own_commands([group.value]):
                continue
            entries = (group.members or {})["hooks"]
            if len(entries.children) > 1:
                return delete_child(text, entries, self._own_index(entries))
            if len(groups.children) > 1:
                return delete_child(text, groups, index)
            return delete_child(text, hooks, name)
        return None

    def _group(self, name: str, command: str) -> dict[str, Any]:
        return {"hooks": [{"type": "command", "command": command, "timeout": self.timeouts_s[name]}]}

    def _own_index(self, entries: Node) -> int:
        return next(
            index for index, entry in enumerate(entries.children) if self._own_commands([{"hooks": [entry.value]}])
        )


def _hooks(root: Node) -> Node | None:
    hooks = (root.members or {}).get("hooks")
    if hooks is not None and hooks.members is None:
        raise Unsafe("`hooks` is not an object.")
    return hooks
