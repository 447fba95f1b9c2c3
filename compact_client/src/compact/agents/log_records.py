"""Read a log line by line, as bytes, from any position.

Lines end at `\n` and nowhere else: agents write U+2028 and U+0085 inside JSON strings, which `str.splitlines` would
split. A line that is not a JSON object is reported and skipped. A last line without `\n` is still being written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any

from compact.delivery import fast_json

MAX_LINE_BYTES = 64 * 1024 * 1024
_MIN_BINARY = 2_000
_BINARY_KEYS = ("data", "image_url", "url", "base64")


@dataclass(frozen=True)
class LogRecord:
    """One line of a log."""

    value: dict[str, Any]
    raw: bytes
    line: int
    end: int
    """The position of the next line in the file."""

    @cached_property
    def digest(self) -> str:
        """A name for a record without an id of its own."""
        return hashlib.blake2b(self.raw.strip(), digest_size=12).hexdigest()

    @property
    def has_no_binary(self) -> bool:
        """True if the line is too short for an image or has no sign of one."""
        return len(self.raw) < _MIN_BINARY or (b"base64" not in self.raw and b"data:image" not in self.raw)

    def without_binary(self) -> LogRecord:
        """Return the record with a note in place of each image."""
        return self if self.has_no_binary else self.with_value(_replace_binary(self.value))

    def with_value(self, value: dict[str, Any]) -> LogRecord:
        """Return the record of the same line with another value."""
        return LogRecord(value, self.raw, self.line, self.end)

    def content(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the parts of the value that can contain conversation text, by key. `a.b` is a key inside of `a`."""
        content = {}
        for key in keys:
            outer, _, inner = key.partition(".")
            item = self.value.get(outer)
            if inner and isinstance(item, dict):
                item = item.get(inner)
            if item is not None:
                content[key] = item
        return content

    def with_content(self, content: Mapping[str, Any]) -> LogRecord:
        """Return the record with other contents than those that `content` returned."""
        value = dict(self.value)
        for key, item in content.items():
            outer, _, inner = key.partition(".")
            is_inside = inner and isinstance(value[outer], dict)
            value[outer] = {**value[outer], inner: item} if is_inside else item
        return self.with_value(value)


@dataclass(frozen=True)
class SkippedLine:
    """A line that could not be read, with the reason."""

    line: int
    end: int
    reason: str
    is_incomplete: bool = False
    """True for a last line without `\n` that is not valid JSON, which a writer may still complete."""


def read_records(stream: IO[bytes], *, line: int = 0, position: int = 0) -> Iterator[LogRecord | SkippedLine]:
    """Yield the lines of a stream that is at `position`, after `line` lines. Empty lines are skipped."""
    while raw := stream.readline(MAX_LINE_BYTES):
        line += 1
        start, position = position, position + len(raw)
        is_complete = raw.endswith(b"\n")
        if not is_complete and len(raw) == MAX_LINE_BYTES:
            position += _skip_line(stream)
            yield SkippedLine(line, position, f"is longer than {MAX_LINE_BYTES:,} bytes")
            continue
        if not raw.strip():
            continue
        try:
            value = parse_line(raw)
        except (ValueError, RecursionError) as error:
            if is_complete:
                yield SkippedLine(line, position, f"is not valid JSON ({_reason(error)})")
            else:
                yield SkippedLine(line, start, "is incomplete", is_incomplete=True)
            continue
        if isinstance(value, dict):
            yield LogRecord(value, raw, line, position)
        else:
            yield SkippedLine(line, position, "is not a JSON object")


def parse_line(raw: bytes) -> Any:
    """Parse one line. Bytes that are not UTF-8 become U+FFFD."""
    try:
        return fast_json.parse(raw)
    except UnicodeDecodeError:
        return json.loads(raw.decode("utf-8", "replace"))


def _replace_binary(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _replace_binary(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_replace_binary(item) for item in value]
    if key in _BINARY_KEYS and isinstance(value, str) and len(value) >= _MIN_BINARY and " " not in value[:200]:
        return f"[{len(value):,} characters of binary data]"
    return value


def _skip_line(stream: IO[bytes]) -> int:
    skipped = 0
    while rest := stream.readline(MAX_LINE_BYTES):
        skipped += len(rest)
        if rest.endswith(b"\n"):
            break
    return skipped


def _reason(error: Exception) -> str:
    return f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else type(error).__name__
