"""`compactctl`: compact, compare, inspect, import, follow and check, from a terminal or a script."""

from compact.cli.main import main

__all__ = ["main"]
