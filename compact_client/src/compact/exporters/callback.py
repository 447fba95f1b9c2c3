"""Give each event to a function. What the function raises is told on stderr and goes no further."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compact.delivery.stderr import say


class CallbackExporter:
    """`CallbackExporter(events.append)` collects; any callable of one argument will do."""

    def __init__(self, callback: Callable[[dict[str, Any]], object]) -> None:
        self._callback = callback

    def emit(self, event: dict[str, Any]) -> None:
        try:
            self._callback(event)
        except Exception as error:
            say("compact", f"the exporter's callback failed: {type(error).__name__}: {error}")
