"""Approximate token counts from the number of bytes, without a vocabulary.

The estimate is high for prose, because dense text (hex, code, non-Latin scripts) has fewer bytes per token.
"""

from __future__ import annotations

from compact.estimators.request_counter import RequestCounter

_BYTES_PER_TOKEN = 3


class NoopEstimator(RequestCounter):
    """Counts one token for every three bytes of UTF-8. Its public name says that it loads no vocabulary."""

    name = "noop"

    def count_tokens(self, text: str, model: str = "") -> int:
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        return -(-size // _BYTES_PER_TOKEN)
