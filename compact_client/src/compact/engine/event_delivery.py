"""Deliver events to the exporter and to the storage's event log."""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from compact.delivery.stderr import log_problem
from compact.engine.effects import Steps
from compact.protocols import Exporter, StorageAdapter

_REPORT_INTERVAL_S = 60.0


class EventDelivery:
    """Sends each event to every target. A target that fails is reported on stderr and never raises.

    Events must be redacted before they get here. The engine wraps this class in a `RedactingExporter`.
    """

    def __init__(self, exporter: Exporter | None, storage: StorageAdapter | None) -> None:
        self.exporter = exporter
        self._storage = storage
        self._pending: deque[tuple[str, Awaitable[Any]]] = deque()
        self._last_reports: dict[str, float] = {}

    @property
    def has_targets(self) -> bool:
        """True if events go anywhere."""
        return self.exporter is not None or self._storage is not None

    def emit(self, event: dict[str, Any]) -> None:
        """Send an event. The awaitable results of async targets are kept until `wait_for_targets`."""
        if self.exporter is not None:
            self._call("export", self.exporter.emit, event)
        if self._storage is not None:
            self._call("archive", self._storage.save_event, event["session_id"], event)

    def wait_for_targets(self) -> Steps[None]:
        """Wait for the async targets that received events."""
        while self._pending:
            name, result = self._pending.popleft()
            try:
                yield lambda result=result: result  # type: ignore[misc]
            except Exception as error:
                self._report(f"{name} failed: {error}")

    def _call(self, name: str, deliver: Callable[..., Any], *arguments: Any) -> None:
        try:
            result = deliver(*arguments)
            if inspect.isawaitable(result):
                self._pending.append((name, result))
        except Exception as error:
            self._report(f"{name} failed: {error}")

    def _report(self, problem: str) -> None:
        # An unavailable target fails at every event, so the same problem is reported once a minute.
        now = time.monotonic()
        if now - self._last_reports.get(problem, -_REPORT_INTERVAL_S) >= _REPORT_INTERVAL_S:
            self._last_reports = {problem: now}
            log_problem("Ariadne", problem)
