"""The process that keeps the search index up to date, beside each web process."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

_STOP_TIMEOUT_S = 2.0
_log = logging.getLogger("ariadne.search")


class IndexSupervisor:
    """Start the index process, and start it again if it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ensure_running(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                return
            _log.warning("index_process_replaced exit_code=%s", self._process.returncode)
            self.stop()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "viewer.search.index_process"],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def stop(self) -> None:
        """Let the process end after its batch, or kill it. An unfinished batch is rolled back."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
