"""Prepare a child process, then exec its command: `python launcher.py STOP_SIGNAL own|namespace COMMAND …`.

A separate program that uses only the standard library, so that the child inherits no supervisor state such as threads
or limits.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1


def enter_namespace() -> None:
    """Enter a user namespace that maps root to `nobody`.

    Postgres refuses to run as root. The namespace avoids changing the owner or mode of any file.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, value in (("setgroups", "deny"), ("uid_map", "65534 0 1"), ("gid_map", "65534 0 1")):
        Path(f"/proc/self/{name}").write_text(value)


def die_with_parent(stop_signal: int = signal.SIGTERM) -> None:
    """Have the kernel send `stop_signal` to this process when its parent dies. Does nothing outside Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, stop_signal)


def main() -> None:
    stop_signal, where, *command = sys.argv[1:]
    if where == "namespace":
        enter_namespace()
    die_with_parent(int(stop_signal))
    os.execv(command[0], command)  # noqa: S606 - the command comes from the supervisor


if __name__ == "__main__":
    main()
