"""Remove what programs add to a text for other programs: escapes of line breaks, and HTML of images and comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_LINE_BREAK: Final = "\\n"
_MIN_LINE_BREAKS: Final = 3  # Code has one or two of them in a string.
_MIN_ESCAPED_CHARS: Final = 160
_ESCAPES: Final = (
    (_LINE_BREAK, "\n"),
    ("\\t", "\t"),
    ('\\"', '"'),
    ("\\u003c", "<"),
    ("\\u003e", ">"),
    ("\\u0026", "&"),
)
# Elements with which services decorate comments. Those of source files are left alone.
_DECORATION: Final = re.compile(
    r"<!--[^<>]{0,2000}(?<=--)>|</?(?:a|p|picture|source|img|br|sub|sup|details|summary)(?:\s[^<>]{0,2000})?/?>|&nbsp;"
)
_DECORATED: Final = ("<!--", "<picture", "<img", "<details", "<summary", "</details", "</summary", "</p>", "<sub>")
_DIFF_HEADER: Final = re.compile(
    r"(?:---|\+\+\+) (?:[ab]/\S+|/dev/null)$|index [0-9a-f]{7,40}\.\.[0-9a-f]{7,40}(?: \d{6})?$"
)

_MARKS: Final = (_LINE_BREAK, "<", "--- ", "+++ ", "index ")  # Most texts have none of them.


def plain_lines(text: str) -> Iterable[str]:
    """Return the lines of a text without markup. Lines that consist of it are left out."""
    has_markup = any(mark in text for mark in _MARKS)
    return _remove_markup(text) if has_markup else text.split("\n")


def _remove_markup(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if len(line) >= _MIN_ESCAPED_CHARS and line.count(_LINE_BREAK) >= _MIN_LINE_BREAKS:
            yield from filter(None, map(_plain_line, _unescape(line).split("\n")))
        else:
            yield _plain_line(line)


def _unescape(line: str) -> str:
    """Return the text of a string that was printed with its escapes."""
    for escape, text in _ESCAPES:
        line = line.replace(escape, text)
    return line


def _plain_line(line: str) -> str:
    if "<" in line and any(mark in line for mark in _DECORATED):
        return _DECORATION.sub(" ", line).strip()
    # The line before these names both files of a diff.
    return "" if line[:3] in ("---", "+++", "ind") and _DIFF_HEADER.match(line) else line
