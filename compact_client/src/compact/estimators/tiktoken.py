"""Exact counts with the model's own vocabulary, with no network.

The two vocabularies in use are shipped in the package and checked by their hash; tiktoken itself would download
them. A text is encoded once: the count is remembered by the text.
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
# tiktoken's regex engine recurses on very long runs without a word break; pieces this long stay far below that.
_PIECE_CHARS = 200_000
_CACHE_CHARS = 64_000_000


class TiktokenEstimator(RequestCounter):
    """tiktoken with the encoding of the model; one unknown to tiktoken counts as `o200k_base`."""

    name = "tiktoken"

    def __init__(self, encoding: str | None = None) -> None:
        self._encoding_name = encoding
        self._counts: dict[str, dict[str, int]] = {}
        self._cached_chars = 0

    def count_tokens(self, text: str, model: str = "") -> int:
        counts = self._counts_for(model)
        tokens = counts.get(text)
        return self._counted(text, counts, model) if tokens is None else tokens

    def count_by_line(self, text: str, model: str = "") -> int:
        """The same number for a text that is counted often with few lines changed, such as a summary on its way."""
        if "\n" not in text or len(text) > _PIECE_CHARS:
            return self.count_tokens(text, model)
        counts = self._counts_for(model)
        tokens = counts.get(text)
        if tokens is None:
            tokens = 0
            for piece in _pieces(text):
                known = counts.get(piece)
                tokens += self._counted(piece, counts, model) if known is None else known
            counts[text] = tokens
            self._cached_chars += len(text)
        return tokens

    def _counts_for(self, model: str) -> dict[str, int]:
        name = self._encoding_name or encoding_name(model)
        counts = self._counts.get(name)
        return self._counts.setdefault(name, {}) if counts is None else counts

    def _counted(self, text: str, counts: dict[str, int], model: str) -> int:
        tokens = _count(text, load_encoding(self._encoding_name or encoding_name(model)))
        self._cached_chars += len(text)
        # Emptied rather than aged: the texts of a live session are counted again in one pass.
        if self._cached_chars > _CACHE_CHARS:
            for known in self._counts.values():
                known.clear()
            self._cached_chars = len(text)
        counts[text] = tokens
        return tokens


def _pieces(text: str) -> list[str]:
    """The text cut where neither vocabulary has a token across the cut: before a line that begins with a word.

    Both take a line break together with the mark before it and with blank lines after it; `o200k_base` also with a
    slash after it.
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
    """The shipped vocabulary that fits a model best."""
    from tiktoken.model import encoding_name_for_model

    try:
        name = encoding_name_for_model(model) if model else DEFAULT_ENCODING
    except KeyError:
        return DEFAULT_ENCODING
    if name in _SHA256:
        return name
    return "o200k_base" if name.startswith("o200k") else "cl100k_base"


_loaded: dict[str, tiktoken.Encoding] = {}
_loading = threading.Lock()


def load_encoding(name: str) -> tiktoken.Encoding:
    """The encoding, built from the shipped vocabulary the first time."""
    encoding = _loaded.get(name)
    if encoding is not None:
        return encoding
    import tiktoken

    with _loading:
        if name not in _loaded:
            _loaded[name] = tiktoken.Encoding(**_definition(name, _ranks(name)))
        return _loaded[name]


def preload_encoding(model: str) -> None:
    """Build the model's encoding in the background, so that the first count does not wait for it."""
    name = encoding_name(model)
    if name not in _loaded:
        threading.Thread(target=load_encoding, args=(name,), name="compact-vocabulary", daemon=True).start()


def _unlock_in_child() -> None:
    # A fork while another thread builds would leave the child with a lock that nobody holds.
    global _loading  # noqa: PLW0603
    _loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


def _ranks(name: str) -> dict[bytes, int]:
    if name not in _SHA256:
        raise ValueError(f"encoding {name!r} is not shipped: one of {', '.join(_SHA256)}")
    raw = gzip.decompress((files("compact.estimators") / "vocab" / f"{name}.tiktoken.gz").read_bytes())
    if hashlib.sha256(raw).hexdigest() != _SHA256[name]:
        raise ValueError(f"the vocabulary {name} is damaged: install compact-client again")
    decode = base64.b64decode
    return {decode(token): int(rank) for token, rank in (line.split() for line in raw.splitlines() if line)}


def _definition(name: str, ranks: dict[bytes, int]) -> dict[str, Any]:
    # Pattern and special tokens are tiktoken's own; only its download is replaced.
    from tiktoken_ext import openai_public as public  # type: ignore[import-untyped]

    constructor = public.ENCODING_CONSTRUCTORS[name]
    scope = {**constructor.__globals__, "load_tiktoken_bpe": lambda *_, **__: ranks}
    rebuilt: dict[str, Any] = type(constructor)(constructor.__code__, scope)()
    return rebuilt
