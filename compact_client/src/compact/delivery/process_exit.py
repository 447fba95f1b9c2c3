"""Exit handlers that also run where `atexit` does not, and the question whether a process may end without any.

A child of `fork` usually ends with `os._exit`, which skips `atexit`. The children of `multiprocessing` run its own
finalizers before that. Nothing runs in a child that calls `os._exit` itself, such as a worker of Celery, or in one that
is terminated, such as a worker of `multiprocessing.Pool`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable

# After the finalizers of the application, which may emit events.
_PRIORITY = -100


class _ExitHandlers:
    """The handlers of this process, last registered first."""

    def __init__(self) -> None:
        self._handlers: list[Callable[[], None]] = []
        self.child_callbacks: list[Callable[[], None]] = []
        self.is_child = False

    def add(self, handler: Callable[[], None]) -> None:
        atexit.register(handler)
        self._handlers.append(handler)
        self._join_multiprocessing()

    def remove(self, handler: Callable[[], None]) -> None:
        atexit.unregister(handler)
        with contextlib.suppress(ValueError):
            self._handlers.remove(handler)

    def after_fork(self) -> None:
        self.is_child = True
        if self._handlers:
            self._join_multiprocessing()

    def _join_multiprocessing(self) -> None:
        # A child of multiprocessing has imported it. Other processes do not need it, so it is not imported here.
        util = sys.modules.get("multiprocessing.util")
        if util is None:
            return
        # A child imports the main module, forgets all finalizers, and calls this afterwards.
        util.register_after_fork(self, _ExitHandlers._start_child)
        if _is_multiprocessing_child():
            self._start_child()

    def _start_child(self) -> None:
        self.is_child = True
        for callback in self.child_callbacks:
            callback()
        sys.modules["multiprocessing.util"].Finalize(None, self._run, exitpriority=_PRIORITY)

    def _run(self) -> None:
        for handler in reversed(list(self._handlers)):
            handler()


def add_exit_handler(handler: Callable[[], None]) -> None:
    """Call a handler when this process or a child of it ends. It may be called twice."""
    _handlers.add(handler)


def remove_exit_handler(handler: Callable[[], None]) -> None:
    """Do not call a handler, and release it."""
    _handlers.remove(handler)


def may_skip_exit_handlers() -> bool:
    """Return True in a process that was forked or started by `multiprocessing`."""
    return _handlers.is_child or _is_multiprocessing_child()


def on_child_start(callback: Callable[[], None]) -> None:
    """Call a function when `multiprocessing` has started this process. Forked ones are `os.register_at_fork`'s."""
    _handlers.child_callbacks.append(callback)


def _is_multiprocessing_child() -> bool:
    # While a spawned child imports the main module, only its command line says that it is one.
    if "--multiprocessing-fork" in sys.orig_argv:
        return True
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


_handlers = _ExitHandlers()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_handlers.after_fork)
