"""Exit codes of `compactctl`. Scripts rely on these numbers."""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
UNREADABLE = 3
UNREACHABLE = 4
NO_ROOM = 5
INTERRUPTED = 130

MEANINGS = {
    OK: "success",
    FAILED: "a check failed: an archive or bundle does not verify, a setting is invalid, or doctor found a problem",
    USAGE: "invalid command line, or a package that the command needs is not installed",
    UNREADABLE: "an input file is unreadable or contains no conversation",
    UNREACHABLE: "the server is unreachable, or rejected the key, the token or some events",
    NO_ROOM: "the messages that must be kept do not fit the context window",
    INTERRUPTED: "interrupted with Ctrl-C",
}


class Stop(Exception):
    """Ends the command with an exit code and one line on stderr."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
