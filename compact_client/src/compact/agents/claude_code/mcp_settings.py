"""Register the MCP server in a settings file of Claude Code, and remove it, without touching anything else.

Edits are insertions and deletions of text, so key order, comments, indentation and other servers stay as they are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from compact.agents.agent import McpSettings
from compact.agents.jsonc import Node, Unsafe, delete_child, dump, insert, parse
from compact.exceptions import CompactError

SERVERS: Final = "mcpServers"
NAME: Final = "ariadne"


class UnsafeSettings(CompactError):
    """The settings file cannot be edited without a risk."""


def add_server(text: str, server: dict[str, Any]) -> str:
    """Return the settings with our server. A server of ours that is there already is replaced."""
    if _is_empty(text):
        return dump({SERVERS: {NAME: server}}, "  ") + "\n"
    root, servers = _read(text)
    if servers is None:
        return insert(text, root, SERVERS, {NAME: server})
    known = (servers.members or {}).get(NAME)
    if known is None:
        return insert(text, servers, NAME, server)
    return text if known.value == server else text[: known.start] + dump(server, "") + text[known.end :]


def remove_server(text: str) -> str:
    """Return the settings without our server, and without a list of servers that becomes empty."""
    if installed_server(text) is None:
        return text
    _, servers = _read(text)
    assert servers is not None
    text = delete_child(text, servers, NAME)
    root, servers = _read(text)
    return text if servers is not None and servers.children else delete_child(text, root, SERVERS)


def installed_server(text: str) -> dict[str, Any] | None:
    """Return our server as the settings have it, or None."""
    _, servers = (None, None) if _is_empty(text) else _read(text)
    server = servers.value.get(NAME) if servers is not None else None
    return server if isinstance(server, dict) else None


def settings_file(scope: str) -> Path:
    """Return the settings file of a scope."""
    if scope == "project":
        return Path(".mcp.json")
    home = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(home).expanduser() if home else Path.home()) / ".claude.json"


def _is_empty(text: str) -> bool:
    return not text.strip().strip("\ufeff")


def _read(text: str) -> tuple[Node, Node | None]:
    """Return the settings and the servers in them."""
    try:
        root = parse(text)
    except Unsafe as error:
        raise UnsafeSettings(f"The settings were not changed. {error}") from None
    if root.members is None:
        raise UnsafeSettings("The settings are not a JSON object, so they were not changed.")
    servers = root.members.get(SERVERS)
    if servers is not None and servers.members is None:
        raise UnsafeSettings(f"`{SERVERS}` in the settings is not an object, so they were not changed.")
    return root, servers


MCP = McpSettings(settings_file=settings_file, add=add_server, remove=remove_server, installed=installed_server)
