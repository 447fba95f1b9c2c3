"""Run a command and end with its exit code; whatever goes wrong is one line, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from compact.cli import exits
from compact.cli.parser import Run, build_parser
from compact.exceptions import CompactError, ConfigError, InsufficientBudget
from compact.redaction import default_redactor


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    options = build_parser().parse_args(argv)
    try:
        return _command(options.command)(options)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # `| head` has seen enough.
        sys.stderr.close()
        return exits.OK
    except exits.Stop as stop:
        return _say(stop.code, str(stop))
    except ConfigError as error:
        return _say(exits.FAILED, str(error))
    except InsufficientBudget as error:
        return _say(exits.NO_ROOM, str(error))
    except (CompactError, OSError, UnicodeDecodeError) as error:
        return _say(exits.UNREADABLE, str(error))


def _say(code: int, message: str) -> int:
    clean, _ = default_redactor().text(message)
    sys.stderr.write(f"compactctl: {clean}\n")
    return code


def _command(name: str) -> Run:
    # Each command loads only what it needs: --help and completion must be quick.
    if name in ("compact", "dry-run", "diff", "remember"):
        from compact.cli import conversations

        return {
            "compact": conversations.compact,
            "dry-run": conversations.dry_run,
            "diff": conversations.diff,
            "remember": conversations.remember,
        }[name]
    if name in ("tail", "import", "doctor"):
        from compact.cli import doctor, serving

        return {"tail": serving.tail, "import": serving.bring, "doctor": doctor.doctor}[name]
    if name == "completion":
        from compact.cli import completion

        return completion.completion
    from compact.cli import checking

    return {"verify": checking.verify, "config": checking.config}[name]
