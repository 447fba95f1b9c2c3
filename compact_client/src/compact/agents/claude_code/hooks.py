"""The hooks of Claude Code that `compactctl hooks` uses."""

from __future__ import annotations

import os
from pathlib import Path

from compact.agents.claude_code import NAME, hook_settings
from compact.agents.hooks import Hooks


def settings_file(scope: str) -> Path:
    """Return the settings file of a scope."""
    if scope == "user":
        home = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(home).expanduser() if home else Path.home() / ".claude") / "settings.json"
    return Path.cwd() / ".claude" / ("settings.json" if scope == "project" else "settings.local.json")


HOOKS = Hooks(
    agent=NAME,
    events=hook_settings.EVENTS,
    settings_file=settings_file,
    add=hook_settings.add_hooks,
    remove=hook_settings.remove_hooks,
    installed=hook_settings.installed_events,
    fields=("session_id", "transcript_path", "cwd", "hook_event_name", "trigger", "source", "reason"),
    before_compaction="PreCompact",
    # The boundary and the summary are written after the hook has started.
    settle_s={"PostCompact": 1.5},
)
