"""Texts that Claude Code itself puts into user messages."""

from __future__ import annotations

import re

_NOTICE = re.compile(r"<(?:task-notification|command-|local-command-|system-reminder|bash-|user-prompt-submit-hook)")


def is_notice(text: str) -> bool:
    """Return True for a text that starts with one of Claude Code's own tags."""
    return _NOTICE.match(text.lstrip()) is not None
