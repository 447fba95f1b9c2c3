"""Log lines on stderr for problems that must not be raised into the agent."""

from __future__ import annotations

import sys

from compact.redaction import default_redactor


def log_problem(prefix: str, text: str) -> None:
    """Write `[prefix] text` to stderr. Secrets are redacted, because the text may quote a URL or an event."""
    clean, _ = default_redactor().text(text)
    try:
        sys.stderr.write(f"[{prefix}] {clean}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        # stderr may be closed or None during interpreter shutdown.
        return
