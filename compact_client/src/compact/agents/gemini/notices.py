"""Texts that Gemini CLI itself puts into user messages."""

from __future__ import annotations

SNAPSHOT = "<state_snapshot>"
_PROGRAM_TEXTS = ("<session_context>", SNAPSHOT)


def is_notice(text: str) -> bool:
    """Return True for a text that starts with one of Gemini CLI's own tags."""
    return text.lstrip().startswith(_PROGRAM_TEXTS)
