"""Entry point of `compactctl`. Errors become an exit code and one line on stderr, never a traceback."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from compact.cli import exit_codes
from compact.cli.terminal import safe_streams
from compact.exceptions import CompactError, ConfigError, InsufficientBudget

# Module and function of each command. Modules are imported on demand, so that --help and completion stay fast.
_COMMANDS = {
    "compact": ("compaction", "compact"),
    "dry-run": ("compaction", "dry_run"),
    "diff": ("compaction", "diff"),
    "remember": ("compaction", "remember"),
    "run": ("run", "run"),
    "gateway": ("gateway", "gateway"),
    "tail": ("tail", "tail"),
    "import": ("watch", "import_logs"),
    "watch": ("watch", "watch"),
    "hooks": ("hooks", "hooks"),
    "uncompact": ("uncompact", "uncompact"),
    "mcp": ("mcp", "mcp"),
    "doctor": ("doctor", "doctor"),
    "verify": ("verify", "verify"),
    "config": ("config", "config"),
    "completion": ("completion", "completion"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:2] == ["hooks", "run"]:
        # An agent waits for this one, so do not load the other commands.
        from compact.cli.hooks.run import run

        return run(arguments[2] if len(arguments) > 2 else "")
    with safe_streams():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    from compact.cli.parser import build_parser

    options = build_parser().parse_args(arguments)
    try:
        return _command(options.command)(options)
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has closed it.
        sys.stderr.close()
        return exit_codes.OK
    except exit_codes.Stop as stop:
        return _fail(stop.code, str(stop))
    except ConfigError as error:
        return _fail(exit_codes.FAILED, str(error))
    except InsufficientBudget as error:
        return _fail(exit_codes.NO_ROOM, str(error))
    except (CompactError, OSError, UnicodeDecodeError) as error:
        return _fail(exit_codes.UNREADABLE, str(error))


def _command(name: str) -> Callable[[Any], int]:
    module, function = _COMMANDS[name]
    command: Callable[[Any], int] = getattr(importlib.import_module(f"compact.cli.commands.{module}"), function)
    return command


def _fail(code: int, message: str) -> int:
    from compact.redaction import default_redactor

    clean, _ = default_redactor().text(message)
    sys.stderr.write(f"compactctl: {clean}\n")
    return code
