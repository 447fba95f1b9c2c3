"""The terminal of the supervisor, which may be a pipe without a reader or a log file on a full disk."""

from __future__ import annotations

import contextlib
import os
import sys

_STDOUT = 1


def print_line(text: str) -> None:
    """Write text and a line break to stdout, if it takes them. A server does not stop for a line that is lost."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    data = f"{text}\n".encode(encoding, "replace")
    # Not with `print`: what its buffer keeps after an error is written later, or fails again at the exit.
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(_STDOUT, data) :]
