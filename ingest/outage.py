"""A part of the server that does not work at the moment. The begin and the end are a line in the log each."""

from __future__ import annotations

import logging
import time

from ingest.errors import describe


class Outage:
    """Counts failures by their user, because several use the same part. It works when none of them fails."""

    def __init__(self, logger: logging.Logger, name: str, action: str) -> None:
        self._logger, self._name, self._action = logger, name, action
        self._failing: set[object] = set()
        self._since = 0.0

    @property
    def problem(self) -> str:
        """Return what to do while there is an outage, or nothing."""
        return f"{self._action}." if self._failing else ""

    def fail(self, user: object, error: BaseException) -> None:
        if not self._failing:
            self._since = time.monotonic()
            self._logger.warning("%s_unavailable action=%r %s", self._name, self._action, describe(error))
        self._failing.add(user)

    def succeed(self, user: object) -> None:
        if user in self._failing:
            self._failing.remove(user)
            if not self._failing:
                self._logger.warning("%s_works after_s=%.1f", self._name, time.monotonic() - self._since)
