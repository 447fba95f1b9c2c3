"""The config command: check the settings, or show each one with its source."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from compact.cli import exit_codes, output
from compact.config.factory import build
from compact.config.settings import SETTINGS
from compact.config.sources import Resolved, resolve, unknown_variables
from compact.exceptions import ConfigError

_COLUMNS = ("setting", "value", "source", "variable")


def config(options: argparse.Namespace) -> int:
    """Check or show the settings that a file, the environment and the defaults result in."""
    problems = [f"{name} {message}" for name, message in unknown_variables(os.environ)]
    resolved = None
    try:
        resolved = resolve(options.config or options.file)
        if options.action == "check":
            build(resolved.settings)
    except ConfigError as error:
        problems = [*str(error).splitlines(), *problems]
    if resolved is None or (problems and options.action == "check"):
        return _report(problems, as_json=options.json)
    rows = _rows(resolved)
    if options.json:
        settings = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
        output.document({"ok": not problems, "problems": problems, "settings": settings})
        return exit_codes.OK
    if options.action == "show":
        output.table("", _COLUMNS, rows)
    else:
        output.console().print("All settings are valid.", style="green")
    for problem in problems:
        output.console(to_stderr=True).print(problem, style="yellow", soft_wrap=True)
    return exit_codes.OK


def _rows(resolved: Resolved) -> list[tuple[str, str, str, str]]:
    return [
        (path, _text(setting.value_in(resolved.settings)), resolved.sources.get(path, "default"), setting.variable)
        for path, setting in SETTINGS.items()
    ]


def _report(problems: Sequence[str], *, as_json: bool) -> int:
    """Print everything that is wrong with the settings."""
    if as_json:
        output.document({"ok": False, "problems": list(problems)})
    for problem in problems if not as_json else ():
        output.console(to_stderr=True).print(problem, style="red", soft_wrap=True)
    return exit_codes.FAILED


def _text(value: Any) -> str:
    if value is None:
        return "–"
    # str() of a pydantic secret is a row of asterisks.
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
