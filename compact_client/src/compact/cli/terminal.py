"""Escape everything that could control a terminal.

Session ids, names and texts come from agents, so they may contain escape sequences that set the clipboard, clear the
screen or reverse the order of letters. All commands write through the streams of this module. An escaped character has
the form of JSON, `\\u001b`, so that JSON output stays valid and has the same value.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

# Control characters except tab and line feed, marks that change the direction of text, line separators, characters
# without a width, tags and surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_LINE_UNSAFE = re.compile(f"[\\t\\n]|{_UNSAFE.pattern}")


def escape(text: str) -> str:
    """Return a text of several lines that a terminal only displays."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_escape, text)


def escape_line(text: object) -> str:
    """Return a value that a terminal only displays, on one line."""
    return _LINE_UNSAFE.sub(_escape, str(text))


class SafeStream:
    """A text stream that escapes what is written to it. Everything else is that of the stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the escaped text."""
        self._stream.write(escape(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write the escaped lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Escape everything that is written to stdout and stderr."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = SafeStream(streams[0]), SafeStream(streams[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def underlying_stream(stream: Any) -> Any:
    """Return the stream below a safe one, for a writer that escapes its texts itself, such as rich."""
    return stream._stream if isinstance(stream, SafeStream) else stream


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
