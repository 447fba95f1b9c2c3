"""The format of log lines: one line per event.

A traceback helps with a defect of this program. It does not help with a request that was denied or malformed, or that
met a database that is down. Of those there may be hundreds.
"""

from __future__ import annotations

import logging
import re

_DEFECT = 500
# Line breaks in names and addresses would forge lines, and other control characters affect terminals.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


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
