"""The format of log lines: one line per event, and a limit of lines that strangers can cause.

A traceback helps with a defect of this program. It does not help with a request that was denied or malformed, or that
met a database that is down. Of those there may be hundreds, and of wrong tokens thousands.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from dataclasses import dataclass

_DEFECT = 500
# Line breaks in names and addresses would forge lines, and other control characters affect terminals.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(slots=True)
class _Window:
    started_at: float
    count: int = 0


class RequestLimit(logging.Filter):
    """Passes the first lines of each status per minute, and then says once how many requests had no line.

    A defect always has its line.
    """

    LINES = 60
    SECONDS = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[object, _Window] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        status = getattr(record, "status_code", None)
        if status is None or status >= _DEFECT:
            return True
        with self._lock:
            now = time.monotonic()
            window = self._windows.get(status)
            omitted = 0
            if window is None or now - window.started_at >= self.SECONDS:
                omitted = max(0, window.count - self.LINES) if window is not None else 0
                window = self._windows[status] = _Window(now)
            window.count += 1
            if window.count > self.LINES:
                return False
        if omitted:
            text = f"{record.getMessage()} (before it, {omitted:,} requests with status {status} had no line)"
            record.msg, record.args = text, None
        return True


class LineFormatter(logging.Formatter):
    """Formats a record as one line. Only a defect has a traceback after it."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and getattr(record, "status_code", _DEFECT) != _DEFECT:
            message = f"{record.getMessage()} ({type(error).__name__}: {error})"
            plain = {"msg": message, "args": None, "exc_info": None, "exc_text": None}
            record = logging.makeLogRecord({**record.__dict__, **plain})
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the base class
        return _CONTROL.sub(_escape, super().formatMessage(record))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
