"""Pass each event to a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compact.delivery.stderr import log_problem


class CallbackExporter:
    """Calls a function with each event: `CallbackExporter(events.append)`. Exceptions are logged to stderr."""

    def __init__(self, callback: Callable[[dict[str, Any]], object]) -> None:
        self._callback = callback

    def emit(self, event: dict[str, Any]) -> None:
        """Call the function with the event."""
        try:
            self._callback(event)
        except Exception as error:
            log_problem("compact", f"The exporter callback failed: {type(error).__name__}: {error}")
