"""The MCP servers in the settings of Claude Code."""

from __future__ import annotations

import os
from pathlib import Path

from compact.agents.json_servers import command_and_arguments, json_servers


def settings_file(scope: str) -> Path:
    """Return the settings file of a scope."""
    if scope == "project":
        return Path(".mcp.json")
    home = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(home).expanduser() if home else Path.home()) / ".claude.json"


MCP = json_servers("mcpServers", settings_file, lambda command: {"type": "stdio", **command_and_arguments(command)})
