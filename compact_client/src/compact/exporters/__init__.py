"""Where events go: a console, a function, OpenTelemetry, an Ariadne server, or several of these."""

from compact.exporters.ariadne import AriadneExporter
from compact.exporters.callback import CallbackExporter
from compact.exporters.console import ConsoleExporter
from compact.exporters.multi import MultiExporter
from compact.exporters.otlp import OTLPExporter

__all__ = ["AriadneExporter", "CallbackExporter", "ConsoleExporter", "MultiExporter", "OTLPExporter"]
