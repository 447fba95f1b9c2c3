"""CSV that spreadsheets display but never execute.

A cell that starts like a formula gets a leading apostrophe, which spreadsheets interpret as text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

# Spreadsheets skip spaces at the start, and some read the full-width forms of `=+-@`, too.
_FORMULA = re.compile(r"\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
_CHUNK_CHARS = 64 * 1024


def escape(cell: object) -> str:
    text = "" if cell is None else str(cell)
    return f"'{text}" if _FORMULA.match(text) else text


def encode(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """Yield chunks of CSV as UTF-8 with a byte order mark, so that spreadsheets do not guess the encoding."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    buffer.write("\ufeff")
    writer.writerow(header)
    for row in rows:
        writer.writerow([escape(cell) for cell in row])
        if buffer.tell() > _CHUNK_CHARS:
            yield _flush(buffer)
    yield _flush(buffer)


def _flush(buffer: io.StringIO) -> bytes:
    data = buffer.getvalue().encode()
    buffer.seek(0)
    buffer.truncate()
    return data
