"""Compile custom patterns with an engine that guarantees linear time.

Custom patterns come from a configuration file, and they run on untrusted text. RE2 searches in linear time for
every pattern and text. It has no lookaround and no backreferences.
"""

from __future__ import annotations

import logging
import re
from typing import Any

_log = logging.getLogger(__name__)
_SURROGATE = re.compile("[\ud800-\udfff]")


def compile_pattern(pattern: str) -> Any:
    """Compile a custom pattern. Raise `ValueError` with the reason if it is invalid.

    A pattern without a group `secret` in the style of document 000, `badge\\s*[:=]\\s*\\S+`, keeps its key. Only the
    value is masked.
    """
    compiled = _compile(pattern)
    if "secret" in compiled.groupindex:
        return compiled
    head, separator, tail = pattern.rpartition(r"[:=]\s*")
    return _compile(rf"{head}{separator}(?P<secret>{tail})") if separator and tail else compiled


def check_pattern(pattern: str) -> None:
    """Raise `ValueError` with the reason if a custom pattern cannot be used."""
    if not pattern.strip():
        raise ValueError("it is empty")
    if compile_pattern(pattern).search("") is not None:
        raise ValueError("it matches the empty text")


def searchable(text: str) -> str:
    """Return a text of the same length without lone surrogates, which RE2 cannot read."""
    return text if text.isascii() else _SURROGATE.sub("?", text)


def _compile(pattern: str) -> Any:
    try:
        import re2
    except ImportError:
        _log.warning(
            "A custom redaction pattern runs without a time limit. Install compact-client[patterns] to get one."
        )
        try:
            return re.compile(pattern)
        except re.error as error:
            raise ValueError(str(error)) from None
    try:
        return re2.compile(pattern)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"{reason} (RE2 syntax, which has no lookaround and no backreferences)") from None
