"""A process that keeps the search index up to date: `python -m viewer.search.index_process`.

Splitting texts into words holds the interpreter lock, so in the web process it would delay ingest and pages. The
process ends when its standard input is closed, which the web process does when it ends.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import time

import django
from django.db import connection

# Below the web process and its decode workers. With 10, it took 7 % of the CPU time of a server under full load.
_NICENESS = 19
if __name__ == "__main__":
    # Before Django is set up, because the web process handles its first requests at the same time.
    os.nice(_NICENESS)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ariadne.settings")
django.setup()

from ingest.errors import describe  # noqa: E402 - Django must be set up first
from ingest.storage.database.write_failures import find_cause  # noqa: E402
from viewer.search import indexer  # noqa: E402

_IDLE_S, _RETRY_S = 1.0, 5.0
_log = logging.getLogger("ariadne.search")


def run(stop_fd: int) -> None:
    """Index changes until `stop_fd` is closed at its other end.

    A lock in the database lets one process write. While there is a backlog, it works at most half of the time, so that
    ingest and pages keep the CPU.
    """
    pause_s, failure = 0.0, ""
    while not select.select([stop_fd], [], [], pause_s)[0]:
        began = time.monotonic()
        try:
            has_more = indexer.run_once()
            pause_s = time.monotonic() - began if has_more else _IDLE_S
            if failure:
                _log.warning("search_index_works")
            failure = ""
        except Exception as error:  # the process goes on after any failure of the database
            pause_s, reason = _RETRY_S, find_cause(error).reason
            if reason != failure:
                _log.warning("search_index_failed reason=%r %s", reason, describe(error))
            failure = reason
        finally:
            connection.close()


def main() -> None:
    # Ctrl-C and a shutdown reach the whole process group. The web process closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    run(sys.stdin.fileno())


if __name__ == "__main__":
    main()
