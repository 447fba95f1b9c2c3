"""Read the messages of a websocket from its raw bytes, in one direction, also with permessage-deflate."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

from compact.gateway.recorder.content_coding import BodyTooLarge, UnreadableBody

_TEXT, _BINARY, _CONTINUATION = 1, 2, 0
_FIN, _DEFLATED, _MASKED = 0x80, 0x40, 0x80
_TAIL = b"\x00\x00\xff\xff"


class WebsocketReader:
    """Yields the text messages of one direction. `extensions` is the answer's `sec-websocket-extensions`."""

    def __init__(self, extensions: str, *, is_client: bool, max_bytes: int) -> None:
        options = _options(extensions)
        side = "client" if is_client else "server"
        self._is_deflate = "permessage-deflate" in options
        self._keeps_context = f"{side}_no_context_takeover" not in options
        self._inflate = zlib.decompressobj(wbits=-15)
        self._buffer = bytearray()
        self._message = bytearray()
        self._is_deflated = False
        self._opcode = 0
        self._max = max_bytes

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each message that is complete. Raise `UnreadableBody` if the bytes are no websocket frames."""
        self._buffer += data
        while (frame := self._next_frame()) is not None:
            first, payload = frame
            opcode = first & 0x0F
            if opcode > _BINARY:
                continue  # ping, pong, close
            if opcode != _CONTINUATION:
                self._opcode, self._is_deflated = opcode, bool(first & _DEFLATED)
                self._message.clear()
            self._message += payload
            if len(self._message) > self._max:
                raise BodyTooLarge("The message is too large.")
            if first & _FIN:
                message = self._complete()
                if self._opcode == _TEXT:
                    yield message

    def _complete(self) -> bytes:
        message = bytes(self._message)
        self._message.clear()
        if not self._is_deflated:
            return message
        if not self._is_deflate:
            raise UnreadableBody("A message is compressed, but the extension was not accepted.")
        try:
            content = self._inflate.decompress(message + _TAIL, self._max + 1)
        except zlib.error as error:
            raise UnreadableBody(f"A message is not valid: {error}") from error
        if len(content) > self._max:
            raise BodyTooLarge("The message is too large.")
        if not self._keeps_context:
            self._inflate = zlib.decompressobj(wbits=-15)
        return content

    def _next_frame(self) -> tuple[int, bytes] | None:
        """Return the first byte and the payload of the next frame, or None until it is complete."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        length, start = buffer[1] & 0x7F, 2
        if length >= 126:
            size = 2 if length == 126 else 8
            if len(buffer) < 2 + size:
                return None
            length, start = int.from_bytes(buffer[2 : 2 + size], "big"), 2 + size
        if length > self._max:
            raise BodyTooLarge("The message is too large.")
        is_masked = bool(buffer[1] & _MASKED)
        end = start + 4 * is_masked + length
        if len(buffer) < end:
            return None
        first = buffer[0]
        payload = bytes(buffer[end - length : end])
        if is_masked:
            payload = _unmask(payload, bytes(buffer[start : start + 4]))
        del buffer[:end]
        return first, payload


def _unmask(payload: bytes, mask: bytes) -> bytes:
    """Return a payload without its mask. One large integer is much faster than a loop over bytes."""
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


def _options(extensions: str) -> Mapping[str, str]:
    """Return the names in the header, with their values."""
    parts = [part.strip() for extension in extensions.split(",") for part in extension.split(";")]
    return {name.strip().lower(): value.strip() for name, _, value in (part.partition("=") for part in parts)}
