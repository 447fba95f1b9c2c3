"""Texts that Codex itself puts into user messages."""

from __future__ import annotations

import re

_NOTICE = re.compile(r"\s*(?:<(?:environment_context|user_instructions|turn_aborted|permissions|skill)|# AGENTS\.md)")


def is_notice(text: str) -> bool:
    """Return True for a text that starts with one of Codex's own tags."""
    return _NOTICE.match(text) is not None
