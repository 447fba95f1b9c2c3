"""Counts without any vocabulary, by bytes.

High rather than low: dense text (hex, code, scripts other than Latin) has fewer bytes to a token than prose.
"""

from __future__ import annotations

from compact.estimators.request_counter import RequestCounter

_BYTES_PER_TOKEN = 3


class NoopEstimator(RequestCounter):
    """About one token for every three bytes of UTF-8."""

    name = "noop"

    def count_tokens(self, text: str, model: str = "") -> int:
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        return -(-size // _BYTES_PER_TOKEN)
