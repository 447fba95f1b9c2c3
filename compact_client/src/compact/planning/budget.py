"""Token budget of a request: its breakdown into parts, its limits, and the provider's reported usage.

The six parts always sum to the total. Once a provider reports its own count, later estimates are corrected by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compact.events import PROMPT_PARTS
from compact.messages import Message


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Tokens of a request by part."""

    system: int = 0
    developer: int = 0
    tools_schema: int = 0
    memory: int = 0
    history: int = 0
    user_input: int = 0

    @property
    def total(self) -> int:
        return sum(getattr(self, part) for part in PROMPT_PARTS)

    def to_dict(self) -> dict[str, int]:
        return {part: getattr(self, part) for part in PROMPT_PARTS}

    def scale_to(self, total: int) -> Breakdown:
        """Return the same shares of another total, as integers that sum to it exactly."""
        current = self.total
        if current == total:
            return self
        if current == 0:
            return Breakdown(history=total)
        exact = {part: getattr(self, part) * total / current for part in PROMPT_PARTS}
        rounded = {part: int(value) for part, value in exact.items()}
        missing = total - sum(rounded.values())
        for part in sorted(PROMPT_PARTS, key=lambda name: rounded[name] - exact[name])[:missing]:
            rounded[part] += 1
        return Breakdown(**rounded)


def breakdown_part(message: Message, *, protected_flag: str) -> str:
    """Return the part that a message counts toward, except that the newest user input is still part of the history."""
    if message.role == "system":
        return "system"
    if message.role == "developer":
        return "developer"
    if message.is_summary or message.kind == "sealed" or message.meta.get(protected_flag):
        return "memory"
    return "history"


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Limits of a request and its overhead, as defined in document 003."""

    max_input_tokens: int
    soft_threshold_percent: float = 0.85
    system_prompt_tokens: int = 0
    tool_schema_tokens: int = 0
    formatting_overhead_tokens: int = 0
    safety_buffer_tokens: int = 500
    rehydration_reserve_tokens: int = 2000
    max_rehydration_artifacts: int = 3

    @property
    def overhead_tokens(self) -> int:
        return (
            self.system_prompt_tokens
            + self.tool_schema_tokens
            + self.formatting_overhead_tokens
            + self.safety_buffer_tokens
            + self.rehydration_reserve_tokens
        )

    @property
    def available_for_messages(self) -> int:
        return int(self.max_input_tokens * self.soft_threshold_percent) - self.overhead_tokens

    @property
    def available_for_rehydration(self) -> int:
        return self.rehydration_reserve_tokens


@dataclass(frozen=True, slots=True)
class Usage:
    """Token usage that a provider reported for one call."""

    input_tokens: int
    output_tokens: int = 0
    cached_tokens: int = 0

    @property
    def blended_tokens(self) -> int:
        """Non-cached input plus output. A measure of cost, not of the window's contents."""
        return max(0, self.input_tokens - self.cached_tokens) + self.output_tokens

    @classmethod
    def from_provider(cls, usage: Any) -> Usage:
        """Read the usage of any provider: a `Usage`, an int, a mapping, or an object with the usual attributes."""
        if isinstance(usage, Usage):
            return usage
        if isinstance(usage, int):
            return cls(usage)
        details = _first(usage, ("input_tokens_details", "prompt_tokens_details"))
        cached = _tokens(details, "cached_tokens")
        cache_read = _tokens(usage, "cache_read_input_tokens")
        # Anthropic does not count tokens read from or written to the cache as input_tokens.
        return cls(
            input_tokens=_tokens(usage, "input_tokens", "prompt_tokens")
            + cache_read
            + _tokens(usage, "cache_creation_input_tokens"),
            output_tokens=_tokens(usage, "output_tokens", "completion_tokens"),
            cached_tokens=cached or cache_read or _tokens(usage, "cached_tokens"),
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
