"""Read the messages of a websocket from its raw bytes, in one direction, also with permessage-deflate."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

from compact.gateway.recorder.content_coding import BodyTooLarge, UnreadableBody
from compact.gateway.websocket_frames import (
    BINARY,
    CONTINUATION,
    DEFLATED,
    FIN,
    TEXT,
    FrameSplitter,
    FrameTooLarge,
    WebsocketFrame,
)

_TAIL = b"\x00\x00\xff\xff"


class WebsocketReader:
    """Yields the text messages of one direction. `extensions` is the answer's `sec-websocket-extensions`."""

    def __init__(self, extensions: str, *, is_client: bool, max_bytes: int) -> None:
        options = _options(extensions)
        side = "client" if is_client else "server"
        self._is_deflate = "permessage-deflate" in options
        self._keeps_context = f"{side}_no_context_takeover" not in options
        self._inflate = zlib.decompressobj(wbits=-15)
        self._frames = FrameSplitter(max_bytes=max_bytes)
        self._message = bytearray()
        self._is_deflated = False
        self._opcode = 0
        self._max = max_bytes

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each message that is complete. Raise `UnreadableBody` if the bytes are no websocket frames."""
        try:
            for frame in self._frames.feed(data):
                yield from self._read(frame)
        except FrameTooLarge as error:
            raise BodyTooLarge(str(error)) from error

    def _read(self, frame: WebsocketFrame) -> Iterator[bytes]:
        if frame.kind > BINARY:
            return  # ping, pong, close
        if frame.kind != CONTINUATION:
            self._opcode, self._is_deflated = frame.kind, bool(frame.first & DEFLATED)
            self._message.clear()
        self._message += frame.payload
        if len(self._message) > self._max:
            raise BodyTooLarge("The message is too large.")
        if frame.first & FIN:
            message = self._complete()
            if self._opcode == TEXT:
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


def _options(extensions: str) -> Mapping[str, str]:
    """Return the names in the header, with their values."""
    parts = [part.strip() for extension in extensions.split(",") for part in extension.split(";")]
    return {name.strip().lower(): value.strip() for name, _, value in (part.partition("=") for part in parts)}
