"""Send each event to several exporters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from compact.delivery.stderr import log_problem
from compact.protocols import Exporter


class MultiExporter:
    """Sends each event to every exporter in order: `MultiExporter(ConsoleExporter(), AriadneExporter())`.

    Also accepts a list. If one exporter raises, the error is logged and the others still receive the event.
    """

    def __init__(self, *exporters: Exporter | Iterable[Exporter]) -> None:
        self.exporters: tuple[Exporter, ...] = tuple(
            exporter
            for argument in exporters
            for exporter in (argument if isinstance(argument, Iterable) else (argument,))
        )

    def emit(self, event: dict[str, Any]) -> None:
        """Send the event to every exporter."""
        for exporter in self.exporters:
            try:
                exporter.emit(event)
            except Exception as error:
                log_problem("compact", f"{type(exporter).__name__} failed: {type(error).__name__}: {error}")

    def flush(self, timeout_s: float = 2.0) -> bool:
        """Flush every exporter that can be flushed. Return False if one of them timed out."""
        results = [exporter.flush(timeout_s) for exporter in self.exporters if hasattr(exporter, "flush")]
        return all(results)

    def close(self) -> None:
        """Close every exporter that can be closed."""
        for exporter in self.exporters:
            if hasattr(exporter, "close"):
                exporter.close()
