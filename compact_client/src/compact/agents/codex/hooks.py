"""The hooks of Codex that `compactctl hooks` uses, in `hooks.json`. The format is that of Claude Code's settings."""

from __future__ import annotations

import os
from pathlib import Path

from compact.agents.codex import NAME
from compact.agents.hook_settings import HookSettings
from compact.agents.hooks import Hooks, hook_call

# Codex shortens a longer timeout of SessionEnd, and warns about it.
_TIMEOUTS_S = {"PreCompact": 10, "PostCompact": 10, "SessionStart": 10, "SessionEnd": 3}
_SETTINGS = HookSettings(_TIMEOUTS_S, hook_call(NAME))


def settings_file(scope: str) -> Path:
    """Return the file with the hooks of a scope."""
    home = os.environ.get("CODEX_HOME")
    folder = Path(home).expanduser() if home else Path.home() / ".codex"
    return (Path.cwd() / ".codex" if scope == "project" else folder) / "hooks.json"


HOOKS = Hooks(
    agent=NAME,
    events=_SETTINGS.events,
    scopes=("user", "project"),
    settings_file=settings_file,
    add=_SETTINGS.add,
    remove=_SETTINGS.remove,
    installed=_SETTINGS.find_installed,
    fields=("session_id", "transcript_path", "cwd", "hook_event_name", "trigger", "source", "reason"),
    before_compaction="PreCompact",
    settle_s={"PostCompact": 1.5},
    next_step="Codex runs new hooks only after you have approved them: start it and enter /hooks.",
)
