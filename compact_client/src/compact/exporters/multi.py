"""Several exporters at once. One that fails does not keep the others from their event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from compact.delivery.stderr import say
from compact.protocols import Exporter


class MultiExporter:
    """`MultiExporter(ConsoleExporter(), AriadneExporter())` gives each event to all, in this order; a list will do."""

    def __init__(self, *exporters: Exporter | Iterable[Exporter]) -> None:
        self.exporters: tuple[Exporter, ...] = tuple(
            each for given in exporters for each in (given if isinstance(given, Iterable) else (given,))
        )

    def emit(self, event: dict[str, Any]) -> None:
        for exporter in self.exporters:
            try:
                exporter.emit(event)
            except Exception as error:
                say("compact", f"{type(exporter).__name__} failed: {type(error).__name__}: {error}")

    def flush(self, timeout_s: float = 2.0) -> bool:
        """Flush those that can be flushed; True if all were in time."""
        results = [exporter.flush(timeout_s) for exporter in self.exporters if hasattr(exporter, "flush")]
        return all(results)

    def close(self) -> None:
        for exporter in self.exporters:
            if hasattr(exporter, "close"):
                exporter.close()
