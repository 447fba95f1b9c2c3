"""One line on stderr for what must not be raised. Secrets do not get through, and a closed stderr does not hurt."""

from __future__ import annotations

import sys

from compact.redaction import default_redactor


def say(who: str, text: str) -> None:
    """Write `[who] text`; the text is redacted, for it may quote an address or an event."""
    clean, _ = default_redactor().text(text)
    try:
        sys.stderr.write(f"[{who}] {clean}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        # stderr may be closed or None at interpreter shutdown; there is nobody left to tell.
        return
