"""The vocabularies that are shipped with this package, and the fastest installed way to count with them.

tiktoken would download its vocabularies, so the package ships the two in use and verifies their hashes. If gigatoken
(the extra `fast`) is installed, it counts, which is about ten times faster. Otherwise tiktoken does.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import tempfile
import threading
import warnings
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tiktoken

_SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
DEFAULT_ENCODING = "o200k_base"
# A text with every character class of the patterns. A gigatoken that counts it differently is not used.
_SAMPLE = (
    "It's 2 o'clock:\r\n\r\n\tcamelCASE /to.py \u00e9t\u00e9 \u6f22\u5b57 \U0001f642\u200d <|endoftext|> 1234567  x"
)
_SAMPLE_TOKENS = {"o200k_base": 31, "cl100k_base": 33}

_GROWTH_WORDS = 120_000

CountText = Callable[[str], int]


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
_counters: dict[str, CountText] = {}
_fast_counters: set[CountText] = set()
_lock = threading.RLock()


def load_encoding(name: str) -> tiktoken.Encoding:
    """Return an encoding of tiktoken. The first call builds it from the shipped vocabulary."""
    encoding = _encodings.get(name)
    if encoding is not None:
        return encoding
    import tiktoken

    with _lock:
        if name not in _encodings:
            _encodings[name] = tiktoken.Encoding(**_definition(name, _ranks(name)))
        return _encodings[name]


def load_counter(name: str) -> CountText:
    """Return a function that counts the tokens of a text. The first call loads the vocabulary."""
    counter = _counters.get(name)
    if counter is not None:
        return counter
    with _lock:
        if name not in _counters:
            if (fast := fast_counter(name)) is not None:
                _fast_counters.add(fast)
            _counters[name] = fast or tiktoken_counter(name)
        return _counters[name]


def has_fast_counter(name: str) -> bool:
    """True if a whole text is counted faster than its cached lines are added up."""
    return load_counter(name) in _fast_counters


def tiktoken_counter(name: str) -> CountText:
    """Return a function that counts with tiktoken."""
    encode = load_encoding(name).encode_ordinary
    return lambda text: len(encode(text))


def fast_counter(name: str) -> CountText | None:
    """Return a function that counts with gigatoken, or None if it is not installed or does not work here."""
    try:
        from gigatoken.gigatoken_rs import BPETokenizer
    except ImportError:
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="compact-") as folder:
            path = Path(folder) / f"{name}.tiktoken"
            path.write_bytes(_vocabulary(name))
            # Without special tokens, `<|endoftext|>` in a message is ordinary text, as in `encode_ordinary`.
            encode = BPETokenizer.from_tiktoken(str(path), name.removesuffix("_base"), {}).encode
        is_exact = len(encode(_SAMPLE)) == _SAMPLE_TOKENS[name]
        # Its cache grows once after about 100,000 words, which holds the GIL for 50 ms. Let it grow now.
        encode(" ".join(f"w{number:x}" for number in range(_GROWTH_WORDS)))
    except Exception as error:
        _warn(f"gigatoken cannot be used, so tiktoken counts: {type(error).__name__}: {error}")
        return None
    if not is_exact:
        _warn("This version of gigatoken counts differently from tiktoken, so tiktoken counts.")
        return None

    def count(text: str) -> int:
        try:
            return len(encode(text))
        except TypeError:
            # A lone surrogate. tiktoken replaces it in the same way.
            return len(encode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")))

    return count


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=4)


def _reset_lock_in_child() -> None:
    # A fork while another thread loads a vocabulary would leave the child with a lock that is never released.
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock_in_child)


def _vocabulary(name: str) -> bytes:
    if name not in _SHA256:
        raise ValueError(f"Encoding {name!r} is not included. Use one of: {', '.join(_SHA256)}.")
    raw = gzip.decompress((files("compact.estimators") / "vocab" / f"{name}.tiktoken.gz").read_bytes())
    if hashlib.sha256(raw).hexdigest() != _SHA256[name]:
        raise ValueError(f"The vocabulary {name} is corrupt. Reinstall compact-client.")
    return raw


def _ranks(name: str) -> dict[bytes, int]:
    decode = base64.b64decode
    lines = (line.split() for line in _vocabulary(name).splitlines() if line)
    return {decode(token): int(rank) for token, rank in lines}


def _definition(name: str, ranks: dict[bytes, int]) -> dict[str, Any]:
    # Use tiktoken's pattern and special tokens, and replace only its download.
    from tiktoken_ext import openai_public as public  # type: ignore[import-untyped]

    constructor = public.ENCODING_CONSTRUCTORS[name]
    scope = {**constructor.__globals__, "load_tiktoken_bpe": lambda *_, **__: ranks}
    rebuilt: dict[str, Any] = type(constructor)(constructor.__code__, scope)()
    return rebuilt
