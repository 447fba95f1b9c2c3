"""`compactctl`, the command line: compact, compare, inspect, import, follow and verify."""

from compact.cli.main import main

__all__ = ["main"]
