"""Heads of HTTP/1 messages: read what routing and framing need, keep every other byte.

A head that is forwarded is the bytes that arrived, with a few spans replaced.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

MAX_HEAD_BYTES = 1 << 20
"""More than any provider accepts."""

_BODY_HEADERS = {"content-length", "content-encoding", "transfer-encoding", "trailer", "expect"}

Headers = list[tuple[str, str]]
"""Names in lower case, values without surrounding space, in order."""


class HeadError(ValueError):
    """The bytes are not the head of an HTTP/1 message."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a request."""

    raw: bytes
    method: str
    target: str
    headers: Headers
    _lines: tuple[int, ...]
    """The position of each header line, and of the end of the last one."""

    def value(self, name: str) -> str:
        """Return the first value of a header, or the empty string."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def wants_upgrade(self) -> bool:
        """Return True if the client asks for another protocol, such as a websocket."""
        return "upgrade" in self.value("connection").lower() and bool(self.value("upgrade"))

    def rewritten(
        self, *, target: str, authority: str, without: Collection[str] = (), body_length: int | None = None
    ) -> bytes:
        """Return the bytes with another target and Host, and without the lines of some headers.

        `body_length` is that of another body, whose framing replaces that of the agent's.
        """
        line_end = self.raw.index(b"\r\n")
        start, _, version = self.raw[:line_end].split(b" ")
        parts = [start, b" ", target.encode("latin-1"), b" ", version, b"\r\n"]
        copied = line_end + 2
        for index, (name, value) in enumerate(self.headers):
            begin, end = self._lines[index], self._lines[index + 1]
            if name == "host":
                at = begin + self.raw[begin:end].index(b":") + 1
                at = self.raw.index(value.encode("latin-1"), at, end)
                parts += [self.raw[copied:at], authority.encode("latin-1")]
                copied = at + len(value)
            elif name in without or (body_length is not None and name in _BODY_HEADERS):
                parts.append(self.raw[copied:begin])
                copied = end
        if body_length is not None:
            parts += [self.raw[copied:-2], b"Content-Length: %d\r\n" % body_length]
            copied = len(self.raw) - 2
        parts.append(self.raw[copied:])
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The head of an answer."""

    status: int
    headers: Headers

    @property
    def is_interim(self) -> bool:
        """Return True for 1xx, except for 101, which is the last answer of a connection."""
        return 100 <= self.status < 200 and self.status != 101


def parse_request_head(raw: bytes) -> RequestHead:
    """Parse a request head that ends with an empty line."""
    start_line, headers, lines = _parse(raw)
    parts = start_line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise HeadError("The request line is not HTTP/1.")
    return RequestHead(raw, parts[0], parts[1], headers, lines)


def parse_answer_head(raw: bytes) -> AnswerHead:
    """Parse an answer head that ends with an empty line."""
    start_line, headers, _ = _parse(raw)
    parts = start_line.split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdecimal():
        raise HeadError("The status line is not HTTP/1.")
    return AnswerHead(int(parts[1]), headers)


def _parse(raw: bytes) -> tuple[str, Headers, tuple[int, ...]]:
    # Latin-1 keeps each byte, so positions in the text are positions in the bytes.
    lines = raw.decode("latin-1").split("\r\n")
    headers: Headers = []
    positions = []
    position = len(lines[0]) + 2
    for line in lines[1:-2]:
        name, colon, value = line.partition(":")
        if line[:1] in {" ", "\t"} and headers:
            # An obsolete continuation. It belongs to the line before.
            headers[-1] = (headers[-1][0], f"{headers[-1][1]} {line.strip()}")
        elif not colon or not name:
            raise HeadError("A header line has no name.")
        else:
            headers.append((name.strip().lower(), value.strip(" \t")))
            positions.append(position)
        position += len(line) + 2
    positions.append(position)
    return lines[0], headers, tuple(positions)
