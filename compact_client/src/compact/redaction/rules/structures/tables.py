"""A rule for tables in text: CSV, TSV, Markdown and the output of database clients. The header names the column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import ascii_letters, digits

from compact.redaction.rules.rule import Rule, caseless
from compact.redaction.rules.structures.values import CELL_HINT, HINT_NAME, is_secret
from compact.redaction.secret_keys import key_rule

_WORDS = ("pass", "pwd", "pswd", "secret", "token", "key")
_NAME_CHARS = f"{ascii_letters}{digits}_.-"
_MAX_NAME_CHARS = 60
_DELIMITERS = "|\t;,"
_MAX_LINE_CHARS = 2_000
_MAX_ROWS = 200
_MAX_COLUMNS = 64
_RULER = re.compile(r"[|+:= \t-]*")
_QUOTED_CELL = re.compile(r'(?:[^,;\t"]|"(?:[^"]|"")*")*')
_CELL_SIGNS = " `*\"'"
_BEFORE_CELL = f"{_DELIMITERS}\n\x1e"
Cell = tuple[int, int]


def _spans(match: re.Match[str]) -> list[tuple[int, int]]:
    """Return the values below a secret header, if the match is in the first line of a table."""
    text, position = match.string, match.start()
    if not _is_secret_cell(match):
        return []
    start, end = _line_start(text, position), _line_end(text, position)
    delimiter = next((sign for sign in _DELIMITERS if text.find(sign, max(0, start), end) >= 0), "")
    if start < 0 or end < 0 or not delimiter:
        return []
    header = _cells(text, start, end, delimiter)
    names = [text[first:last].strip(_CELL_SIGNS) for first, last in header]
    # The lines of a list in code end with a comma.
    is_header = len(header) > 1 and (delimiter == "|" or all(names))
    if not is_header or _is_row(text, start, delimiter, len(header)):
        return []
    return list(_values(text, end, delimiter, names))


def _is_secret_cell(match: re.Match[str]) -> bool:
    """True if the text around a match is a whole cell, and the name of a secret."""
    before = match.string[max(0, match.start() - _MAX_NAME_CHARS) : match.start()]
    outside = before.rstrip(_NAME_CHARS)
    sign = outside.rstrip(_CELL_SIGNS)[-1:]
    is_cell = sign in _DELIMITERS if match["break"] else sign in _BEFORE_CELL or "\t" in outside[-2:]
    return is_cell and key_rule(before[len(outside) :] + match[0]) is not None


def _values(text: str, end: int, delimiter: str, names: list[str]) -> Iterator[tuple[int, int]]:
    columns = [index for index, name in enumerate(names) if " " not in name and key_rule(name) is not None]
    for _ in range(_MAX_ROWS):
        start = _next_line(text, end)
        end = _line_end(text, start) if start >= 0 else -1
        if end <= start:
            return
        if _RULER.fullmatch(text, start, end):
            continue
        cells = _cells(text, start, end, delimiter)
        if len(cells) != len(names):
            return
        for column in columns:
            first, last = _trim(text, *cells[column])
            if is_secret(names[column], text[first:last]):
                yield first, last


def _is_row(text: str, start: int, delimiter: str, count: int) -> bool:
    """True if the line above is a row of the same table, so that the line at `start` is no header."""
    if start < 2 or text[start - 1] != "\n":
        return False
    above = _line_start(text, start - 2)
    return (
        above >= 0
        and not _RULER.fullmatch(text, above, start - 1)
        and (len(_cells(text, above, start - 1, delimiter)) == count)
    )


def _cells(text: str, start: int, end: int, delimiter: str) -> list[Cell]:
    cells: list[Cell] = []
    is_quoted = delimiter != "|" and text.find('"', start, end) >= 0
    while len(cells) <= _MAX_COLUMNS:
        if is_quoted and (match := _QUOTED_CELL.match(text, start, end)) is not None:
            last = match.end()
        else:
            last = text.find(delimiter, start, end)
        if last < 0 or last >= end or text[last] != delimiter:
            return [*cells, (start, end)]
        cells.append((start, last))
        start = last + 1
    return []


def _trim(text: str, start: int, end: int) -> Cell:
    cell = text[start:end]
    left = len(cell) - len(cell.lstrip(" \t\r`*\"'"))
    return start + left, start + max(left, len(cell.rstrip(" \t\r`*\"'")))


def _line_start(text: str, position: int) -> int:
    low = max(0, position - _MAX_LINE_CHARS)
    start = max(text.rfind("\n", low, position), text.rfind("\x1e", low, position))
    return start + 1 if start >= 0 else 0 if low == 0 else -1


def _line_end(text: str, position: int) -> int:
    limit = position + _MAX_LINE_CHARS
    end = text.find("\n", position, limit)
    boundary = text.find("\x1e", position, end if end >= 0 else limit)
    end = boundary if boundary >= 0 else end
    return end if end >= 0 else len(text) if len(text) <= limit else -1


def _next_line(text: str, end: int) -> int:
    return end + 1 if text[end : end + 1] == "\n" and end + 1 < len(text) else -1


TABLES = (
    Rule(
        "named_value",
        "secret",
        _WORDS,
        caseless(
            rf"""(?:{"|".join(_WORDS)})[\w.-]{{0,40}}+(?=[ "`*]{{0,60}}+(?:\||(?P<break>\r?\n))|["`]?[,;\t][^ \r\n])"""
        ),
        spans=_spans,
        hints=(
            CELL_HINT,
            rf"[,;|\t][ \"'`*]*{HINT_NAME}[ \"`*]*\r?\n",
        ),
        first_words=_WORDS,
        reach=110,
    ),
)
