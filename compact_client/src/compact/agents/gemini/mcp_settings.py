"""The MCP servers in the settings of Gemini CLI."""

from __future__ import annotations

import os
from pathlib import Path

from compact.agents.json_servers import json_servers


def settings_file(scope: str) -> Path:
    """Return the settings file of a scope."""
    home = os.environ.get("GEMINI_CLI_HOME")
    folder = Path() if scope == "project" else Path(home).expanduser() if home else Path.home()
    return folder / ".gemini" / "settings.json"


MCP = json_servers("mcpServers", settings_file)
