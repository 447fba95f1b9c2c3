"""Output for people (rich tables and progress bars) and for scripts (JSON)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

from compact.cli import extras
from compact.cli.terminal import escape, escape_line, underlying_stream

T = TypeVar("T")

_UNLIMITED_WIDTH = 1_000_000


def console(*, to_stderr: bool = False) -> Any:
    """Return a rich console. Stop with the install command if rich is missing."""
    _require_rich()
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        """A console that escapes all texts. The control sequences are then only those of rich itself."""

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                text, style, control = segment
                yield segment if control else Segment(escape(text), style)

    stream = underlying_stream(sys.stderr if to_stderr else sys.stdout)
    # A file or a pipe has no width, and its reader needs whole lines. Rich would fold them at 80 characters.
    width = None if stream.isatty() else _UNLIMITED_WIDTH
    return SafeConsole(file=stream, highlight=False, width=width)


def _require_rich() -> None:
    extras.require("rich", extra="cli", hint=" (or use --json)")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[int] = ()) -> None:
    """Print a table. The columns with an index in `right` are aligned to the right."""
    out = console()
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        grid.add_column(name, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        # Text from an agent must not be interpreted as rich markup.
        grid.add_row(*(cell if isinstance(cell, Text) else Text(escape_line(cell)) for cell in row))
    out.print(grid)


def progress(items: Sequence[T], description: str, *, is_json: bool) -> Iterable[T]:
    """Return the items, with a progress bar if there are several and stderr is a terminal."""
    if is_json or len(items) < 2 or not sys.stderr.isatty():
        return items
    from rich.progress import track

    return track(items, description=description, console=console(to_stderr=True), transient=True)


def has_tables() -> bool:
    """Return True if rich is installed."""
    return find_spec("rich") is not None


@contextmanager
def byte_progress(description: str, total: int, size_of: Callable[[Any], int]) -> Iterator[Callable[[Any], None]]:
    """Show a progress bar in bytes on stderr. The caller passes each item that is done."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console(to_stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda item: progress.advance(task, size_of(item))


def document(value: Any) -> None:
    """Write one JSON document to stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def line(value: Any) -> None:
    """Write one JSON object as a line to stdout, without buffering."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()


def style(text: str, style: str) -> Any:
    """Return text with a rich style. Stop with the install command if rich is missing."""
    _require_rich()
    from rich.text import Text

    return Text(text, style=style)


def number(value: Any) -> str:
    """Format a number with thousands separators, and None as a dash."""
    return f"{value:,}" if isinstance(value, int) else "–" if value is None else str(value)
