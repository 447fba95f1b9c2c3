"""The tokens of one model call as the provider counted them.

Providers and agents disagree on names and on whether the input includes what was read from a cache or written to it.
Here it always does, because these tokens fill the context window too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Token usage that a provider reported for one call."""

    input_tokens: int
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output, which is what the next prompt starts with."""
        return self.input_tokens + self.output_tokens

    @property
    def blended_tokens(self) -> int:
        """Non-cached input plus output. A measure of cost, not of the window's contents."""
        return max(0, self.input_tokens - self.cached_tokens) + self.output_tokens

    def to_dict(self) -> dict[str, int]:
        """Return the counts under the names of events, or nothing if there was no input."""
        if not self.input_tokens:
            return {}
        return {
            "input_tokens": self.input_tokens,
            "cached_tokens": self.cached_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "output_tokens": self.output_tokens,
        }

    @classmethod
    def with_cache(cls, uncached: int, *, cached: int, cache_write: int, output: int) -> Usage:
        """Return the usage that a source reports without the tokens of the cache in its input."""
        return cls(uncached + cached + cache_write, output, cached, cache_write)

    @classmethod
    def from_provider(cls, usage: Any) -> Usage:
        """Read the usage of any provider: a `Usage`, an int, a mapping, or an object with the usual attributes."""
        if isinstance(usage, Usage):
            return usage
        if isinstance(usage, int):
            return cls(usage)
        details = _first(usage, ("input_tokens_details", "prompt_tokens_details"))
        cache_read, cache_created = (
            _tokens(usage, "cache_read_input_tokens"),
            _tokens(usage, "cache_creation_input_tokens"),
        )
        # Anthropic does not count tokens read from or written to the cache as input_tokens.
        return cls(
            input_tokens=_tokens(usage, "input_tokens", "prompt_tokens") + cache_read + cache_created,
            output_tokens=_tokens(usage, "output_tokens", "completion_tokens"),
            cached_tokens=_tokens(details, "cached_tokens") or cache_read or _tokens(usage, "cached_tokens"),
            cache_write_tokens=_tokens(details, "cache_write_tokens") or cache_created,
        )


def _tokens(source: Any, *names: str) -> int:
    """Return the first of these numbers that is set. A proxy or a test double may have something else there."""
    value = _first(source, names)
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0


def _first(source: Any, names: Iterable[str]) -> Any:
    """Return the first of these keys or attributes that is set."""
    for name in names:
        value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        if value is not None:
            return value
    return None
