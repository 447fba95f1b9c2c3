"""The MCP servers in the settings of opencode."""

from __future__ import annotations

import os
from pathlib import Path

from compact.agents.json_servers import json_servers

# opencode reads both. The one with comments is used where a user already has it.
_NAMES = ("opencode.jsonc", "opencode.json")


def settings_file(scope: str) -> Path:
    """Return the settings file of a scope: the one that exists."""
    home = os.environ.get("XDG_CONFIG_HOME")
    config = Path(home).expanduser() if home else Path.home() / ".config"
    folder = Path() if scope == "project" else config / "opencode"
    files = [folder / name for name in _NAMES]
    return next((file for file in files if file.is_file()), files[-1])


MCP = json_servers("mcp", settings_file, lambda command: {"type": "local", "command": list(command), "enabled": True})
