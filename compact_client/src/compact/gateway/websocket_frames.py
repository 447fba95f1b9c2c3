"""The frames of a websocket: split the raw bytes of one direction, and write a text message. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

CONTINUATION, TEXT, BINARY = 0, 1, 2
FIN, DEFLATED = 0x80, 0x40
_MASKED = 0x80


class FrameTooLarge(ValueError):
    """A frame exceeds the limit."""


class WebsocketFrame(NamedTuple):
    """One frame."""

    first: int
    """The first byte: flags and kind."""
    payload: bytes
    """The payload without its mask."""
    raw: bytes
    """All bytes of the frame, or none if they are not kept."""

    @property
    def kind(self) -> int:
        """The opcode. Above `BINARY`, it is a ping, a pong or a close."""
        return self.first & 0x0F


class FrameSplitter:
    """Splits bytes that are cut anywhere."""

    def __init__(self, *, max_bytes: int, keeps_raw: bool = False) -> None:
        self.buffer = bytearray()
        """The bytes of a frame that is not complete."""
        self._max = max_bytes
        self._keeps_raw = keeps_raw

    def feed(self, data: bytes) -> Iterator[WebsocketFrame]:
        """Yield each frame that is complete."""
        self.buffer += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> WebsocketFrame | None:
        buffer = self.buffer
        if len(buffer) < 2:
            return None
        length, start = buffer[1] & 0x7F, 2
        if length >= 126:
            size = 2 if length == 126 else 8
            if len(buffer) < 2 + size:
                return None
            length, start = int.from_bytes(buffer[2 : 2 + size], "big"), 2 + size
        if length > self._max:
            raise FrameTooLarge("A frame of a websocket is too large.")
        is_masked = bool(buffer[1] & _MASKED)
        end = start + 4 * is_masked + length
        if len(buffer) < end:
            return None
        payload = bytes(buffer[end - length : end])
        if is_masked:
            payload = _mask(payload, bytes(buffer[start : start + 4]))
        frame = WebsocketFrame(buffer[0], payload, bytes(buffer[:end]) if self._keeps_raw else b"")
        del buffer[:end]
        return frame


def encode_text(message: bytes) -> bytes:
    """Return a text message of a client."""
    size = len(message)
    if size < 126:
        head = bytes([FIN | TEXT, _MASKED | size])
    elif size < 1 << 16:
        head = bytes([FIN | TEXT, _MASKED | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([FIN | TEXT, _MASKED | 127]) + size.to_bytes(8, "big")
    mask = os.urandom(4)
    return head + mask + _mask(message, mask)


def _mask(payload: bytes, mask: bytes) -> bytes:
    """Return a payload with its mask added or removed. One large integer is much faster than a loop over bytes."""
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
