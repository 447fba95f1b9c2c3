"""Output: tables and colour for people through rich, one JSON document for machines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from compact.cli import exit_codes


def console(*, to_stderr: bool = False) -> Any:
    """A rich console; without rich, a clear word about the extra that brings it."""
    try:
        from rich.console import Console
    except ImportError:
        raise exit_codes.Stop(
            exit_codes.USAGE, "this needs rich: pip install 'compact-client[cli]' (or use --json)"
        ) from None
    stream = sys.stderr if to_stderr else sys.stdout
    # Into a file or a pipe there is no terminal whose width to respect.
    width = None if stream.isatty() or os.environ.get("COLUMNS") else 160
    return Console(stderr=to_stderr, highlight=False, width=width)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[int] = ()) -> None:
    """Print a table; the columns numbered in `right` hold numbers."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        made.add_column(name, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        # What came from an agent is text, never markup.
        made.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    out.print(made)


def document(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def line(value: Any) -> None:
    """One JSON object a line, sent at once."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()


def styled(text: str, style: str) -> Any:
    from rich.text import Text

    return Text(text, style=style)


def number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "–" if value is None else str(value)
