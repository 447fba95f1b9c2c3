"""Images, audio, video and documents in a message: their kind and size, read from the parts of any provider's format.

Only the headers of files are read. A size that is not in the header, such as that of an image behind a URL, is None,
and the estimator assumes a typical one.
"""

from __future__ import annotations

import base64
import binascii
import re
import string
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compact.messages.block_kinds import MediaKind, kind_of
from compact.messages.canonical import PIECE_CHARS

_HEADER_CHARS = 400_000  # enough for the header of a JPEG with a large preview
_MIN_BINARY_CHARS = 256
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,", re.ASCII)
_BASE64_BYTES = (string.ascii_letters + string.digits + "+/_-").encode()
_MIN_OPAQUE_CHARS = 20_000
_PDF_PAGE = re.compile(rb"/Type\s*/Page(?![s\w])")
_PDF_COUNT = re.compile(rb"/Count\s+(\d+)")
_WRAPPERS = ("image_url", "input_audio", "file", "source", "audio", "video_url", "inlineData", "fileData")
_CONTENT_FIELDS = ("url", "image_url", "data", "base64", "file_data", "result", "fileUri")
_TYPE_FIELDS = ("media_type", "mime_type", "mimeType", "format", "filename")
_MAGIC: tuple[tuple[bytes, MediaKind], ...] = (
    (b"\x89PNG", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"BM", "image"),
    (b"%PDF", "pdf"),
    (b"ID3", "audio"),
    (b"OggS", "audio"),
    (b"fLaC", "audio"),
)
# Files without readable text. No text begins like this.
_OPAQUE_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"ID3\x03", b"ID3\x04", b"OggS\x00", b"fLaC\x00")
_OPAQUE_RIFF = (b"WAVE", b"WEBP")


@dataclass(frozen=True, slots=True)
class Media:
    """One attachment of a message."""

    kind: MediaKind
    width: int | None = None
    height: int | None = None
    detail: str = ""
    """The detail that the caller asked for: low, high, auto or empty."""
    seconds: float | None = None
    pages: int | None = None
    size_bytes: int = 0
    provider: str = ""
    """The provider whose message format it came from, if the format names one."""


def media_in(content: Any, provider: str = "") -> tuple[Media, ...]:
    """Return the attachments in a message's content, at any depth."""
    if isinstance(content, str) or content is None:
        return ()
    return tuple(_find(content, provider))


def text_in_document(part: Mapping[str, Any]) -> str | None:
    """Return the text of a plain-text document, which providers count as text, or None for any other part."""
    source = part.get("source")
    if isinstance(source, Mapping) and source.get("type") == "text" and isinstance(source.get("data"), str):
        return "\n".join(map(str, filter(None, (part.get("title"), part.get("context"), source["data"]))))
    if part.get("type") == "text-plain":
        return str(part.get("text") or "")
    file = part.get("file") or part.get("inlineData")
    data, media_type = _content(file if isinstance(file, Mapping) else part)
    if isinstance(data, str) and media_type.startswith("text/") and _media_kind(part):
        return _decode(data, len(data)).decode("utf-8", "replace")
    return None


def without_binary(value: Any, provider: str = "") -> tuple[Any, tuple[Media, ...]]:
    """Return a JSON value with a short note in place of each base64 text, and the attachments that these were."""
    attachments: list[Media] = []

    def walk(item: Any) -> Any:
        # Most values are short texts, and `isinstance` is slow for an abstract class.
        if not isinstance(item, str):
            if isinstance(item, (dict, Mapping)):
                return {key: walk(nested) for key, nested in item.items()}
            return [walk(nested) for nested in item] if isinstance(item, list | tuple) else item
        if len(item) < _MIN_BINARY_CHARS or not is_binary(item):
            return item
        media = describe(item, "", provider=provider)
        attachments.append(media)
        return f"[{media.kind}, {media.size_bytes:,} bytes]"

    return walk(value), tuple(attachments)


def is_binary(text: str) -> bool:
    """True if a text is a base64 data URL, or the base64 of a known file format."""
    if _DATA_URL.match(text):
        return True
    return _kind_of_bytes(_decode(text[:64], 64)) is not None and _is_base64(text, 0)


def is_opaque(text: str) -> bool:
    """True for the base64 of a large picture or recording. It contains no text, whatever its letters spell."""
    if len(text) < _MIN_OPAQUE_CHARS:
        return False
    match = _DATA_URL.match(text)
    start = match.end() if match else 0
    header = _decode(text[start : start + 64], 64)
    is_known = header.startswith(_OPAQUE_MAGIC) or (header[:4] == b"RIFF" and header[8:12] in _OPAQUE_RIFF)
    return is_known and _is_base64(text, start)


def _is_base64(text: str, start: int) -> bool:
    """True if the rest of a text is base64. It is read in pieces, so that other threads can run in between."""
    end = len(text) - text[-2:].count("=")
    for position in range(start, end, PIECE_CHARS):
        piece = text[position : min(end, position + PIECE_CHARS)]
        if not piece.isascii() or piece.encode().translate(None, _BASE64_BYTES):
            return False
    return start < end


def describe(data: str | bytes, media_type: str, *, kind: MediaKind | None = None, **fields: Any) -> Media:
    """Return what is known about some data: a URL, a data URL, base64 or bytes."""
    if isinstance(data, bytes):
        return _describe_file(data, data, len(data), media_type, kind, fields)
    match = _DATA_URL.match(data)
    if match:
        media_type, data = match[1] or media_type, data[match.end() :]
    elif "://" in data[:12] or data.startswith(("file-", "data:")):
        return Media(_kind_of_type(media_type) or kind or "file", **fields)
    return _describe_file(data, _decode(data, _HEADER_CHARS), len(data) * 3 // 4, media_type, kind, fields)


def _describe_file(
    data: str | bytes, header: bytes, size: int, media_type: str, kind: MediaKind | None, fields: Mapping[str, Any]
) -> Media:
    kind = _kind_of_type(media_type) or _kind_of_bytes(header) or kind or "file"
    width, height = _image_size(header) if kind == "image" else (None, None)
    seconds = _audio_seconds(header, size, media_type) if kind == "audio" else None
    pages = _pdf_pages(data) if kind == "pdf" else None
    return Media(kind, width=width, height=height, seconds=seconds, pages=pages, size_bytes=size, **fields)


def _find(content: Any, provider: str) -> Iterator[Media]:
    if isinstance(content, list | tuple):
        for part in content:
            yield from _find(part, provider)
    elif isinstance(content, Mapping):
        kind = _media_kind(content)
        if kind is None:
            if content.get("type") == "tool_result" or "image_url" in content:
                yield from _find(
                    {**content, "type": "image"} if "image_url" in content else content["content"], provider
                )
        elif text_in_document(content) is None:
            yield from _read_part(content, kind, provider)


def _media_kind(part: Mapping[str, Any]) -> MediaKind | None:
    """Return the kind as which a part is counted, or None if it is no attachment."""
    row = kind_of(part)
    return None if row is None else row.media


def _read_part(part: Mapping[str, Any], kind: MediaKind, provider: str) -> Iterator[Media]:
    source = part.get("source")
    if isinstance(source, Mapping) and source.get("type") == "content":
        yield from _find(source.get("content"), provider)
        return
    fields = part
    for name in _WRAPPERS:
        if isinstance(part.get(name), Mapping):
            fields = part[name]
    data, media_type = _content(fields)
    detail = fields.get("detail") or part.get("detail")
    options: dict[str, Any] = {"detail": detail if isinstance(detail, str) else "", "provider": provider}
    yield describe(data, media_type, kind=kind, **options) if data else Media(kind, **options)


def _content(fields: Mapping[str, Any]) -> tuple[str | bytes, str]:
    """Return the data or address of a part, and its media type."""
    data = next((fields[name] for name in _CONTENT_FIELDS if isinstance(fields.get(name), str | bytes)), "")
    media_type = next((fields[name] for name in _TYPE_FIELDS if isinstance(fields.get(name), str)), "")
    return data, media_type


def _kind_of_type(media_type: str) -> MediaKind | None:
    """Return the kind of a media type, a file name or a format such as `wav`."""
    name = media_type.lower()
    kinds: tuple[MediaKind, ...] = ("image", "audio", "video")
    for kind in kinds:
        if name.startswith(f"{kind}/"):
            return kind
    if name.endswith("pdf"):
        return "pdf"
    return "audio" if name in ("wav", "mp3", "pcm16", "flac", "opus", "aac") else None


def _kind_of_bytes(raw: bytes) -> MediaKind | None:
    if raw[:4] == b"RIFF":
        return "audio" if raw[8:12] == b"WAVE" else "image"
    return next((kind for magic, kind in _MAGIC if raw.startswith(magic)), None)


def _decode(text: str, chars: int) -> bytes:
    piece = text[: chars - chars % 4].replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(piece + "=" * (-len(piece) % 4))
    except (binascii.Error, ValueError):
        return b""


def _image_size(raw: bytes) -> tuple[int | None, int | None]:
    try:
        if raw.startswith(b"\x89PNG"):
            return struct.unpack(">II", raw[16:24])
        if raw.startswith(b"GIF8"):
            return struct.unpack("<HH", raw[6:10])
        if raw.startswith(b"BM"):
            width, height = struct.unpack("<ii", raw[18:26])
            return width, abs(height)
        if raw[8:12] == b"WEBP":
            return _webp_size(raw)
        if raw.startswith(b"\xff\xd8"):
            return _jpeg_size(raw)
    except struct.error:
        pass
    return None, None


def _webp_size(raw: bytes) -> tuple[int, int]:
    if raw[12:16] == b"VP8X":
        return 1 + int.from_bytes(raw[24:27], "little"), 1 + int.from_bytes(raw[27:30], "little")
    if raw[12:16] == b"VP8L":
        bits = int.from_bytes(raw[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack("<HH", raw[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _jpeg_size(raw: bytes) -> tuple[int | None, int | None]:
    position = 2
    while position + 9 < len(raw) and raw[position] == 0xFF:
        marker, length = raw[position + 1], int.from_bytes(raw[position + 2 : position + 4], "big")
        # The start of a frame. The four codes in between are tables.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[position + 5 : position + 9])
            return width, height
        position += 2 + max(2, length)
    return None, None


def _audio_seconds(raw: bytes, size: int, media_type: str) -> float:
    if raw[:4] == b"RIFF" and len(raw) >= 32:
        bytes_per_second = int.from_bytes(raw[28:32], "little")
        if bytes_per_second:
            return size / bytes_per_second
    if "pcm" in media_type:
        return size / 48_000  # 24 kHz, 16 bits, the only raw format that providers accept
    return size / 16_000  # 128 kbit/s


def _pdf_pages(data: str | bytes) -> int | None:
    raw = _decode(data, len(data) + 3) if isinstance(data, str) else data
    pages = len(_PDF_PAGE.findall(raw))
    counts = [int(count) for count in _PDF_COUNT.findall(raw)]
    return max([pages, *counts]) or None
