"""The config command: check the settings, or show each one with its source."""

from __future__ import annotations

import argparse
import os
from typing import Any

from compact.cli import exit_codes, output
from compact.config.factory import build
from compact.config.settings import SETTINGS
from compact.config.sources import resolve, unknown_variables
from compact.exceptions import ConfigError

_COLUMNS = ("setting", "value", "source", "variable")


def config(options: argparse.Namespace) -> int:
    """Check or show the settings that a file, the environment and the defaults result in."""
    unknown = unknown_variables(os.environ)
    try:
        resolved = resolve(options.config or options.file)
        if options.action == "check":
            build(resolved.settings)
    except ConfigError as error:
        if not options.json:
            raise
        output.document({"ok": False, "problems": str(error).splitlines(), "unknown_variables": unknown})
        return exit_codes.FAILED
    rows = [
        (path, _text(setting.value_in(resolved.settings)), resolved.sources.get(path, "default"), setting.variable)
        for path, setting in SETTINGS.items()
    ]
    if options.json:
        settings = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
        output.document({"ok": True, "unknown_variables": unknown, "settings": settings})
        return exit_codes.OK
    if options.action == "show":
        output.table("", _COLUMNS, rows)
    else:
        output.console().print("All settings are valid.", style="green")
    if unknown:
        output.console(to_stderr=True).print(f"Unknown variables: {', '.join(unknown)}", style="yellow")
    return exit_codes.OK


def _text(value: Any) -> str:
    if value is None:
        return "–"
    # str() of a pydantic secret is a row of asterisks.
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
