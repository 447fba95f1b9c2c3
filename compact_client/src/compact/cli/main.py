"""Run a command and end with its exit code; whatever goes wrong is one line, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from compact.cli import exit_codes
from compact.cli.parser import Run, build_parser
from compact.exceptions import CompactError, ConfigError, InsufficientBudget
from compact.redaction import default_redactor


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    options = build_parser().parse_args(argv)
    try:
        return _command(options.command)(options)
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        # `| head` has seen enough.
        sys.stderr.close()
        return exit_codes.OK
    except exit_codes.Stop as stop:
        return _say(stop.code, str(stop))
    except ConfigError as error:
        return _say(exit_codes.FAILED, str(error))
    except InsufficientBudget as error:
        return _say(exit_codes.NO_ROOM, str(error))
    except (CompactError, OSError, UnicodeDecodeError) as error:
        return _say(exit_codes.UNREADABLE, str(error))


def _say(code: int, message: str) -> int:
    clean, _ = default_redactor().text(message)
    sys.stderr.write(f"compactctl: {clean}\n")
    return code


def _command(name: str) -> Run:
    # Each command loads only what it needs: --help and completion must be quick.
    if name in ("compact", "dry-run", "diff", "remember"):
        from compact.cli import compaction

        return {
            "compact": compaction.compact,
            "dry-run": compaction.dry_run,
            "diff": compaction.diff,
            "remember": compaction.remember,
        }[name]
    if name in ("tail", "import", "doctor"):
        from compact.cli import doctor, server

        return {"tail": server.tail, "import": server.bring, "doctor": doctor.doctor}[name]
    if name == "completion":
        from compact.cli import completion

        return completion.completion
    from compact.cli import verify

    return {"verify": verify.verify, "config": verify.config}[name]
