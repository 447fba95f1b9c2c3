"""What `compactctl` ends with; scripts rely on these numbers."""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
UNREADABLE = 3
UNREACHABLE = 4
NO_ROOM = 5
INTERRUPTED = 130

MEANINGS = {
    OK: "done",
    FAILED: "a check failed: an archive does not match its hash, a setting is wrong, doctor found a problem",
    USAGE: "the command line is wrong",
    UNREADABLE: "an input holds no conversation, or cannot be read",
    UNREACHABLE: "the server cannot be reached, or refused the key or token",
    NO_ROOM: "what must be kept is larger than the window",
    INTERRUPTED: "stopped with Ctrl-C",
}


class Stop(Exception):
    """End with a code and one line on stderr."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
