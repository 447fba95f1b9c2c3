"""Become what a child must be, then run its command: `python launcher.py STOP_SIGNAL own|namespace COMMAND …`.

A program of its own, standard library only, so that nothing of the supervisor's state (threads, limits) comes along.
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
    """A user namespace in which root is nobody: Postgres refuses root, and no owner or mode need change."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, value in (("setgroups", "deny"), ("uid_map", "65534 0 1"), ("gid_map", "65534 0 1")):
        Path(f"/proc/self/{name}").write_text(value)


def die_with_parent(stop_signal: int = signal.SIGTERM) -> None:
    """Have the kernel send `stop_signal` to this process when its parent dies. Linux only; elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, stop_signal)


def main() -> None:
    stop_signal, where, *command = sys.argv[1:]
    if where == "namespace":
        enter_namespace()
    die_with_parent(int(stop_signal))
    os.execv(command[0], command)  # noqa: S606 - what the supervisor asked for


if __name__ == "__main__":
    main()
