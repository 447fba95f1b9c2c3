"""The hooks of Claude Code that `compactctl hooks` uses."""

from __future__ import annotations

import os
from pathlib import Path

from compact.agents.claude_code import NAME
from compact.agents.hook_settings import HookSettings
from compact.agents.hooks import Hooks, hook_call

_TIMEOUTS_S = {"PreCompact": 10, "PostCompact": 10, "SessionStart": 10, "SessionEnd": 10}
_SETTINGS = HookSettings(_TIMEOUTS_S, hook_call(NAME))


def settings_file(scope: str) -> Path:
    """Return the settings file of a scope."""
    if scope == "user":
        home = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(home).expanduser() if home else Path.home() / ".claude") / "settings.json"
    return Path.cwd() / ".claude" / ("settings.json" if scope == "project" else "settings.local.json")


HOOKS = Hooks(
    agent=NAME,
    events=_SETTINGS.events,
    scopes=("user", "project", "local"),
    settings_file=settings_file,
    add=_SETTINGS.add,
    remove=_SETTINGS.remove,
    installed=_SETTINGS.find_installed,
    fields=("session_id", "transcript_path", "cwd", "hook_event_name", "trigger", "source", "reason"),
    before_compaction="PreCompact",
    # The boundary and the summary are written after the hook has started.
    settle_s={"PostCompact": 1.5},
)
