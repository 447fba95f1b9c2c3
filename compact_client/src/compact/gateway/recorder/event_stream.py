"""Read server-sent events while their bytes arrive."""

from __future__ import annotations

from collections.abc import Iterator

_MAX_EVENT_BYTES = 64 * 1024 * 1024


class EventStream:
    """Splits bytes, cut anywhere, into the data of events. Comments, ids and retry times are skipped."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the data of each event that is complete."""
        buffer = self._buffer
        buffer += data
        start = 0
        while (end := buffer.find(b"\n", start)) >= 0:
            line = bytes(buffer[start:end]).rstrip(b"\r")
            start = end + 1
            event = self._read_line(line)
            if event is not None:
                yield event
        del buffer[:start]
        if len(buffer) > _MAX_EVENT_BYTES:
            buffer.clear()

    def finish(self) -> Iterator[bytes]:
        """Yield a last event that has no empty line after it."""
        line, self._buffer = bytes(self._buffer).rstrip(b"\r"), bytearray()
        for last in (line, b""):
            event = self._read_line(last)
            if event is not None:
                yield event

    def _read_line(self, line: bytes) -> bytes | None:
        if not line:
            data, self._data = b"\n".join(self._data), []
            return data or None
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        return None
