"""The commands that give back what a compaction lost."""

from __future__ import annotations

import shlex


def restore_commands(session_id: str) -> list[tuple[str, str]]:
    """Return commands for a terminal, each with its purpose. They may be pasted whatever the id of the session is."""
    # An id that starts with a dash would be an option, such as another address for the token.
    session = shlex.quote(session_id) if session_id[:1] != "-" else f"-- {shlex.quote(session_id)}"
    return [
        ("Print what was lost, short enough to paste into the agent", f"compactctl uncompact --server {session}"),
        ("Search the whole session", f"compactctl uncompact --server --query 'a few words' {session}"),
        ("Let Claude Code ask for it, or codex, gemini-cli, opencode", "compactctl mcp install claude-code"),
    ]
