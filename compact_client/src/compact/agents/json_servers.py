"""Register our MCP server in the JSON settings of an agent, and remove it, without touching anything else.

Edits are insertions and deletions of text, so key order, comments, indentation and other servers stay as they are. A
file that cannot be edited this way raises `Unsafe`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from compact.agents.agent import McpSettings
from compact.agents.jsonc import Node, Unsafe, delete_child, dump, insert, parse

NAME: Final = "ariadne"
Entry = dict[str, Any]


def command_and_arguments(command: Sequence[str]) -> Entry:
    """Return the form of a server that most agents have."""
    return {"command": command[0], "args": list(command[1:])}


def json_servers(
    key: str,
    settings_file: Callable[[str], Path],
    entry: Callable[[Sequence[str]], Entry] = command_and_arguments,
) -> McpSettings:
    """Return the settings of an agent that lists its servers in an object below `key`."""
    return McpSettings(
        settings_file=settings_file,
        entry=entry,
        add=partial(_add, key),
        remove=partial(_remove, key),
        installed=partial(_find_server, key),
    )


def _add(key: str, text: str, server: Entry) -> str:
    """Return the settings with our server. A server of ours that is there already is replaced."""
    if _is_empty(text):
        return dump({key: {NAME: server}}, "  ") + "\n"
    root, servers = _read(key, text)
    if servers is None:
        return insert(text, root, key, {NAME: server})
    known = (servers.members or {}).get(NAME)
    if known is None:
        return insert(text, servers, NAME, server)
    return text if known.value == server else text[: known.start] + dump(server, "") + text[known.end :]


def _remove(key: str, text: str) -> str:
    """Return the settings without our server, and without a list of servers that becomes empty."""
    if _find_server(key, text) is None:
        return text
    _, servers = _read(key, text)
    assert servers is not None
    text = delete_child(text, servers, NAME)
    root, servers = _read(key, text)
    return text if servers is not None and servers.children else delete_child(text, root, key)


def _find_server(key: str, text: str) -> Entry | None:
    """Return our server as the settings have it, or None."""
    _, servers = (None, None) if _is_empty(text) else _read(key, text)
    server = servers.value.get(NAME) if servers is not None else None
    return server if isinstance(server, dict) else None


def _is_empty(text: str) -> bool:
    return not text.strip().strip("\ufeff")


def _read(key: str, text: str) -> tuple[Node, Node | None]:
    """Return the settings and the servers in them."""
    root = parse(text)
    if root.members is None:
        raise Unsafe("The settings are not a JSON object.")
    servers = root.members.get(key)
    if servers is not None and servers.members is None:
        raise Unsafe(f"`{key}` in the settings is not an object.")
    return root, servers
