"""Read the rows of tables in tool results: Markdown, CSV, and columns under a heading in capitals.

A row is one record. Its first cell is its id, and the heading gives the names of its fields.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

_LINE_NUMBER: Final = re.compile(r"\s*\d+(?:→|\t)")
_MARKED_CELL: Final = re.compile(r"(\*\*`|\*\*|\*|`)([^*`]+)(?:`\*\*|\*\*|\*|`)")
_RULE_CELL: Final = re.compile(r":?-{2,}:?")
_HEADING_CELL: Final = re.compile(r"[A-Za-z_][\w ./#()%-]{0,40}")
_COLUMNS_HEADING: Final = re.compile(
    r"[A-Z][A-Z0-9_/%()-]*(?: [A-Z0-9_/%()-]+)*(?: {2,}[A-Z][A-Z0-9_/%()-]*(?: [A-Z0-9_/%()-]+)*)+ *"
)
# A necessary condition for the heading of a table: two separators, or columns that do not begin with spaces.
_HAS_SEPARATOR: Final = re.compile(r"\|[^|]*\||,[^,]*,|\t[^\t]*\t|(?<=\S)  ")
_COLUMN: Final = re.compile(r"\S+(?: \S+)*")
_MAX_ID_CHARS: Final = 60
_MAX_CELL_CHARS: Final = 160
_MIN_CSV_ROWS: Final = 2
_MIN_CSV_COLUMNS: Final = 3


class Row(NamedTuple):
    """One row of a table."""

    kind: str
    identifier: str
    pairs: tuple[str, ...]


class _Table(NamedTuple):
    heading: Sequence[str]
    split: Callable[[str], Sequence[str]]
    first_row: int


def read_tables(text: str) -> tuple[list[Row], str]:
    """Return the rows of all tables, and the text without them."""
    has_columns = "  " in text
    if "|" not in text and "," not in text and "\t" not in text and not has_columns:
        return [], text
    lines = text.split("\n")
    rows: list[Row] = []
    rest: list[str] = []
    index = 0
    while index < len(lines):
        table = _find_table(lines, index) if _HAS_SEPARATOR.search(lines[index]) else None
        if table is None:
            rest.append(lines[index])
            index += 1
            continue
        index = table.first_row
        while index < len(lines) and (cells := _cells(table, lines[index])) is not None:
            rows += _row(table.heading, cells)
            index += 1
    return (rows, "\n".join(rest)) if rows else ([], text)


def strip_line_number(line: str) -> str:
    """Remove the line number that a tool for reading files adds."""
    match = _LINE_NUMBER.match(line)
    return line[match.end() :] if match else line


def _find_table(lines: Sequence[str], index: int) -> _Table | None:
    line = lines[index]
    if index + 2 >= len(lines) or len(line) > 1_000:
        return None
    if line.count("|") >= 2:
        return _markdown_table(lines, index)
    for separator in (",", "\t"):
        count = line.count(separator)
        if count >= _MIN_CSV_COLUMNS - 1:
            # A row has at least as many separators as its heading.
            return _csv_table(lines, index, separator) if lines[index + 1].count(separator) >= count else None
    if "  " in line and _COLUMNS_HEADING.fullmatch(line):
        starts = [match.start() for match in _COLUMN.finditer(line)]
        heading = [match.group() for match in _COLUMN.finditer(line)]
        return _Table(heading, lambda row: _column_cells(row, starts), index + 1)
    return None


def _markdown_table(lines: Sequence[str], index: int) -> _Table | None:
    heading, rule = _markdown_cells(lines[index]), _markdown_cells(lines[index + 1])
    is_table = len(heading) > 1 and len(rule) == len(heading) and all(map(_RULE_CELL.fullmatch, rule))
    return _Table(heading, _markdown_cells, index + 2) if is_table else None


def _csv_table(lines: Sequence[str], index: int, separator: str) -> _Table | None:
    def split(line: str) -> list[str]:
        return [cell.strip() for cell in _csv_cells(line, separator)]

    heading = split(strip_line_number(lines[index]))
    if not heading or len(set(heading)) < len(heading) or not all(map(_HEADING_CELL.fullmatch, heading)):
        return None
    sample = [split(line) for line in lines[index + 1 : index + 1 + _MIN_CSV_ROWS]]
    # Prose has commas too, but not the same number in each line, and its cells have many words.
    is_table = all(len(cells) == len(heading) and len(cells[0]) <= _MAX_ID_CHARS for cells in sample)
    # Calls in code have the same number of commas in each line, but a parenthesis spans their cells.
    if not is_table or any(name.count(" ") > 2 or name.count("(") != name.count(")") for name in heading):
        return None
    return _Table(heading, lambda line: split(strip_line_number(line)), index + 1)


def _csv_cells(line: str, separator: str) -> list[str]:
    # The same without a quotation mark. Most lines with commas are code, and creating a reader for each is slow.
    if '"' not in line and "\r" not in line:
        return line.split(separator) if line else []
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []  # Not a row of a table: a progress bar with carriage returns, or a field above the limit of `csv`.


def _cells(table: _Table, line: str) -> Sequence[str] | None:
    if not line.strip() or len(line) > 2_000:
        return None
    cells = table.split(line)
    return cells if len(cells) == len(table.heading) else None


def _markdown_cells(line: str) -> list[str]:
    if line.count("|") < 2:
        return []
    return [_plain_cell(cell.strip()) for cell in strip_line_number(line).strip().strip("|").split("|")]


def _plain_cell(cell: str) -> str:
    """Return a cell without the marks around all of it. Half of a pair of marks would be left otherwise."""
    match = _MARKED_CELL.fullmatch(cell)
    return match.group(2) if match else cell


def _column_cells(line: str, starts: Sequence[int]) -> list[str]:
    # A cell that is wider than its heading would be cut.
    if any(0 < start <= len(line) and line[start - 1] not in " \t" for start in starts):
        return []
    return [line[start:end].strip() for start, end in zip(starts, (*starts[1:], None), strict=True)]


def _row(heading: Sequence[str], cells: Sequence[str]) -> Iterator[Row]:
    identifier = cells[0]
    pairs = tuple(
        f"{name.replace(' ', '_')}={cell}"
        for name, cell in zip(heading[1:], cells[1:], strict=True)
        if name and cell and len(cell) <= _MAX_CELL_CHARS
    )
    if pairs and 0 < len(identifier) <= _MAX_ID_CHARS:
        yield Row(heading[0] or "row", identifier, pairs)
