"""The completion command: print a completion script for a shell, generated from the parser by shtab."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from compact.cli import exit_codes, extras
from compact.cli.parser import build_parser


def completion(options: argparse.Namespace) -> int:
    """Print the script for the chosen shell."""
    extras.require("shtab", extra="cli")
    import shtab

    parser = build_parser()
    _complete_files(parser, shtab.FILE)
    sys.stdout.write(shtab.complete(parser, options.shell) + "\n")
    return exit_codes.OK


def _complete_files(parser: argparse.ArgumentParser, completer: dict[str, Any]) -> None:
    """Complete file names for every argument that takes a file or a path."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command, completer)
        elif action.metavar in ("FILE", "PATH"):
            action.complete = completer  # type: ignore[attr-defined]
