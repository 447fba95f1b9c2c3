"""The end of a message body: by length, by chunks, or by the end of the connection.

The bytes of a body are forwarded as they are. These scanners only find its end, and its content for the copy.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from compact.gateway.http1.heads import AnswerHead, HeadError, Headers

_MAX_LINE_BYTES = 1 << 16
_MAX_DIGITS = 15
_HEX = b"0123456789abcdefABCDEF"


class Body(Protocol):
    """A body of which a part has arrived."""

    is_done: bool

    def feed(self, data: bytes, start: int, content: list[bytes]) -> int:
        """Read data from a position, append the content, and return the position after the body or the data."""


class LengthBody:
    """A body of known length."""

    __slots__ = ("_missing", "is_done")

    def __init__(self, length: int) -> None:
        self._missing = length
        self.is_done = length == 0

    def feed(self, data: bytes, start: int, content: list[bytes]) -> int:
        """Read up to the length."""
        end = min(len(data), start + self._missing)
        if end > start:
            content.append(data if end - start == len(data) else data[start:end])
            self._missing -= end - start
            self.is_done = self._missing == 0
        return end


class CloseBody:
    """A body that ends with its connection."""

    __slots__ = ("is_done",)

    def __init__(self) -> None:
        self.is_done = False

    def feed(self, data: bytes, start: int, content: list[bytes]) -> int:
        """Read everything."""
        content.append(data[start:] if start else data)
        return len(data)


class _State(Enum):
    SIZE = "size"
    DATA = "data"
    DATA_END = "data_end"
    TRAILER = "trailer"


class ChunkedBody:
    """A body in chunks, with trailers."""

    __slots__ = ("_line", "_missing", "_state", "is_done")

    def __init__(self) -> None:
        self._state = _State.SIZE
        self._missing = 0
        self._line = b""
        self.is_done = False

    def feed(self, data: bytes, start: int, content: list[bytes]) -> int:
        """Read chunks. Raise `HeadError` if they are malformed."""
        end = len(data)
        while start < end and not self.is_done:
            if self._state is _State.SIZE and not self._line:
                start = self._read_whole_chunks(data, start, content)
                if start == end:
                    break
            start = self._read_data(data, start, content) if self._missing else self._read_line(data, start)
        return start

    def _read_whole_chunks(self, data: bytes, start: int, content: list[bytes]) -> int:
        """Read the chunks of the usual form that are complete, which is most of them, in few steps."""
        while (newline := data.find(b"\r\n", start, start + _MAX_DIGITS)) > 0:
            digits = data[start:newline]
            # Other forms, such as a size with an extension, are read step by step.
            size = 0 if digits.strip(_HEX) else int(digits, 16)
            end = newline + 2 + size
            if not size or data[end : end + 2] != b"\r\n":
                break
            content.append(data[newline + 2 : end])
            start = end + 2
        return start

    def _read_data(self, data: bytes, start: int, content: list[bytes]) -> int:
        end = min(len(data), start + self._missing)
        content.append(data[start:end])
        self._missing -= end - start
        return end

    def _read_line(self, data: bytes, start: int) -> int:
        newline = data.find(b"\n", start)
        end = len(data) if newline < 0 else newline + 1
        line = self._line + data[start:end]
        if newline < 0:
            if len(line) > _MAX_LINE_BYTES:
                raise HeadError("A line of a chunked body is too long.")
            self._line = line
            return end
        self._line = b""
        self._take_line(line.rstrip(b"\r\n"))
        return end

    def _take_line(self, line: bytes) -> None:
        match self._state:
            case _State.SIZE:
                size = _chunk_size(line)
                self._missing = size
                self._state = _State.DATA_END if size else _State.TRAILER
            case _State.TRAILER:
                self.is_done = not line
            case _:
                if line:
                    raise HeadError("A chunk is longer than its size.")
                self._state = _State.SIZE


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > _MAX_DIGITS or digits.strip(_HEX):
        raise HeadError("A chunk has no size.")
    return int(digits, 16)


def request_body(headers: Headers) -> Body:
    """Return the body that follows a request head."""
    return _explicit_body(headers) or LengthBody(0)


def answer_body(head: AnswerHead, method: str) -> Body:
    """Return the body that follows the head of a final answer to a request with this method."""
    if method == "HEAD" or head.status in {204, 304}:
        return LengthBody(0)
    return _explicit_body(head.headers) or CloseBody()


def _explicit_body(headers: Headers) -> Body | None:
    length = None
    for name, value in headers:
        if name == "transfer-encoding":
            return ChunkedBody() if value.lower().split(",")[-1].strip() == "chunked" else CloseBody()
        if name == "content-length":
            if not value.isdecimal() or len(value) > _MAX_DIGITS or length not in {None, value}:
                raise HeadError("The Content-Length is not a number.")
            length = value
    return None if length is None else LengthBody(int(length))
