"""JSON with msgspec where it is installed, and with the standard library otherwise.

Both give the same values. What msgspec rejects, such as NaN or half of a surrogate pair, the standard library reads or
writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any


def parse(raw: bytes) -> Any:
    """Parse JSON in UTF-8. Raise `ValueError` or `RecursionError` like `json.loads`."""
    decode, _ = _functions()
    if decode is not None:
        try:
            return decode(raw)
        except (ValueError, RecursionError):
            pass  # The standard library accepts more, and its messages name the column.
    return json.loads(raw)


def dump(value: Any) -> bytes:
    """Return a value as compact JSON. Objects of unknown types become texts."""
    _, encode = _functions()
    if encode is not None:
        try:
            return encode(value)
        except (TypeError, ValueError, RecursionError):
            pass
    # Escape non-ASCII characters, so that a lone surrogate in a tool's output is still valid JSON.
    return json.dumps(value, separators=(",", ":"), default=str).encode()


def load() -> None:
    """Import msgspec now, where it is installed."""
    _functions()


@cache
def _functions() -> tuple[Callable[[bytes], Any] | None, Callable[[Any], bytes] | None]:
    # Not imported with this module, because `import compact` loads no optional package.
    try:
        import msgspec
    except ImportError:
        return None, None
    return msgspec.json.Decoder().decode, msgspec.json.Encoder(enc_hook=str).encode
