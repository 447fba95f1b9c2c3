"""Exporters: console, callback, OpenTelemetry, Ariadne server, or several of them."""

from compact.exporters.ariadne import AriadneExporter
from compact.exporters.callback import CallbackExporter
from compact.exporters.console import ConsoleExporter
from compact.exporters.multi import MultiExporter
from compact.exporters.otlp import OTLPExporter

__all__ = ["AriadneExporter", "CallbackExporter", "ConsoleExporter", "MultiExporter", "OTLPExporter"]
