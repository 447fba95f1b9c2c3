"""Exact token counts with the model's vocabulary, offline.

tiktoken would download its vocabularies, so the package ships the two in use and verifies their hashes. Counts are
cached by text, so each text is encoded once.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import threading
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from compact.estimators.request_counter import RequestCounter

if TYPE_CHECKING:
    import tiktoken

_SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
DEFAULT_ENCODING = "o200k_base"
# tiktoken's regex engine recurses on very long texts without a word break. Texts are split far below that length.
_PIECE_CHARS = 200_000
_CACHE_CHARS = 64_000_000


class TiktokenEstimator(RequestCounter):
    """Counts with the model's encoding, or with `o200k_base` if tiktoken does not know the model."""

    name = "tiktoken"

    def __init__(self, encoding: str | None = None) -> None:
        self._encoding_name = encoding
        self._counts: dict[str, dict[str, int]] = {}
        self._cached_chars = 0

    def count_tokens(self, text: str, model: str = "") -> int:
        counts = self._counts_for(model)
        tokens = counts.get(text)
        return self._encode(text, counts, model) if tokens is None else tokens

    def count_by_line(self, text: str, model: str = "") -> int:
        """Return the same number as `count_tokens`, with a cache for each line.

        Faster for a text that is counted repeatedly with small changes, such as a summary being fitted to a limit.
        """
        if "\n" not in text or len(text) > _PIECE_CHARS:
            return self.count_tokens(text, model)
        counts = self._counts_for(model)
        tokens = counts.get(text)
        if tokens is None:
            tokens = 0
            for piece in _pieces(text):
                known = counts.get(piece)
                tokens += self._encode(piece, counts, model) if known is None else known
            counts[text] = tokens
            self._cached_chars += len(text)
        return tokens

    def _counts_for(self, model: str) -> dict[str, int]:
        name = self._encoding_name or encoding_name(model)
        counts = self._counts.get(name)
        return self._counts.setdefault(name, {}) if counts is None else counts

    def _encode(self, text: str, counts: dict[str, int], model: str) -> int:
        """Count a text and cache the result."""
        tokens = _count(text, load_encoding(self._encoding_name or encoding_name(model)))
        self._cached_chars += len(text)
        # Clearing the whole cache is cheap enough: one pass counts the texts of a live session again.
        if self._cached_chars > _CACHE_CHARS:
            for known in self._counts.values():
                known.clear()
            self._cached_chars = len(text)
        counts[text] = tokens
        return tokens


def _pieces(text: str) -> list[str]:
    """Split a text where no token of either vocabulary crosses the split: before a line that starts with a word.

    In both vocabularies, a token may contain a line break with the punctuation before it and the blank lines after it.
    In `o200k_base`, it may also contain a slash after the line break.
    """
    if "\r" in text:
        return [text]
    first, *rest = text.split("\n")
    pieces = [first]
    for line in rest:
        pieces[-1] += "\n"
        if not line or line[0] == "/" or line.isspace():
            pieces[-1] += line
        else:
            pieces.append(line)
    return pieces


def _count(text: str, encoding: tiktoken.Encoding) -> int:
    if len(text) <= _PIECE_CHARS:
        return len(encoding.encode_ordinary(text))
    return sum(
        len(encoding.encode_ordinary(text[start : start + _PIECE_CHARS])) for start in range(0, len(text), _PIECE_CHARS)
    )


@cache
def encoding_name(model: str) -> str:
    """Return the name of the shipped vocabulary that fits a model best."""
    from tiktoken.model import encoding_name_for_model

    try:
        name = encoding_name_for_model(model) if model else DEFAULT_ENCODING
    except KeyError:
        return DEFAULT_ENCODING
    if name in _SHA256:
        return name
    return "o200k_base" if name.startswith("o200k") else "cl100k_base"


_encodings: dict[str, tiktoken.Encoding] = {}
_encodings_lock = threading.Lock()


def load_encoding(name: str) -> tiktoken.Encoding:
    """Return an encoding. The first call builds it from the shipped vocabulary."""
    encoding = _encodings.get(name)
    if encoding is not None:
        return encoding
    import tiktoken

    with _encodings_lock:
        if name not in _encodings:
            _encodings[name] = tiktoken.Encoding(**_definition(name, _ranks(name)))
        return _encodings[name]


def preload_encoding(model: str) -> None:
    """Build the model's encoding in a background thread, so that the first count does not have to."""
    name = encoding_name(model)
    if name not in _encodings:
        threading.Thread(target=load_encoding, args=(name,), name="compact-vocabulary", daemon=True).start()


def _reset_lock_in_child() -> None:
    # A fork while another thread builds an encoding would leave the child with a lock that is never released.
    global _encodings_lock  # noqa: PLW0603
    _encodings_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock_in_child)


def _ranks(name: str) -> dict[bytes, int]:
    if name not in _SHA256:
        raise ValueError(f"Encoding {name!r} is not included. Use one of: {', '.join(_SHA256)}.")
    raw = gzip.decompress((files("compact.estimators") / "vocab" / f"{name}.tiktoken.gz").read_bytes())
    if hashlib.sha256(raw).hexdigest() != _SHA256[name]:
        raise ValueError(f"The vocabulary {name} is corrupt. Reinstall compact-client.")
    decode = base64.b64decode
    return {decode(token): int(rank) for token, rank in (line.split() for line in raw.splitlines() if line)}


def _definition(name: str, ranks: dict[bytes, int]) -> dict[str, Any]:
    # Use tiktoken's pattern and special tokens, and replace only its download.
    from tiktoken_ext import openai_public as public  # type: ignore[import-untyped]

    constructor = public.ENCODING_CONSTRUCTORS[name]
    scope = {**constructor.__globals__, "load_tiktoken_bpe": lambda *_, **__: ranks}
    rebuilt: dict[str, Any] = type(constructor)(constructor.__code__, scope)()
    return rebuilt
