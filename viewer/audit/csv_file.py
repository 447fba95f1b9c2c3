"""CSV that a spreadsheet shows and never runs.

A cell that begins like a formula gets an apostrophe in front, which spreadsheets read as "this is text".
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

_FORMULA = re.compile(r"\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")


def safe(cell: object) -> str:
    text = "" if cell is None else str(cell)
    return f"'{text}" if _FORMULA.match(text) else text


def encode(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """UTF-8 with a mark, so that spreadsheets do not guess the encoding."""
    out = io.StringIO()
    writer = csv.writer(out)
    out.write("\ufeff")
    writer.writerow(header)
    for row in rows:
        writer.writerow([safe(cell) for cell in row])
        if out.tell() > 64 * 1024:
            yield _taken(out)
    yield _taken(out)


def _taken(out: io.StringIO) -> bytes:
    data = out.getvalue().encode()
    out.seek(0)
    out.truncate()
    return data
