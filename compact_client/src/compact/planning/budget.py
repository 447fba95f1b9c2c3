"""The token budget of a request: its parts, its limits, and what the provider says about them.

The six parts always sum to the total. A provider's own figure corrects ours from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compact.messages import Message

PARTS = ("system", "developer", "tools_schema", "memory", "history", "user_input")


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where the tokens of a request are."""

    system: int = 0
    developer: int = 0
    tools_schema: int = 0
    memory: int = 0
    history: int = 0
    user_input: int = 0

    @property
    def total(self) -> int:
        return sum(getattr(self, part) for part in PARTS)

    def to_dict(self) -> dict[str, int]:
        return {part: getattr(self, part) for part in PARTS}

    def scale_to(self, total: int) -> Breakdown:
        """The same shares of another total, in whole tokens that sum to it exactly."""
        own = self.total
        if own == total:
            return self
        if own == 0:
            return Breakdown(history=total)
        exact = {part: getattr(self, part) * total / own for part in PARTS}
        whole = {part: int(value) for part, value in exact.items()}
        rest = total - sum(whole.values())
        for part in sorted(PARTS, key=lambda name: whole[name] - exact[name])[:rest]:
            whole[part] += 1
        return Breakdown(**whole)


def breakdown_part(message: Message, *, protected_flag: str) -> str:
    """The part a message counts towards, before the newest user input is told apart."""
    if message.role == "system":
        return "system"
    if message.role == "developer":
        return "developer"
    if message.is_summary or message.kind == "sealed" or message.meta.get(protected_flag):
        return "memory"
    return "history"


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Limits of a request with all its overhead (document 003)."""

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
    """What a provider reported for one call."""

    input_tokens: int
    output_tokens: int = 0
    cached_tokens: int = 0

    @property
    def blended_tokens(self) -> int:
        """Non-cached input and output: what the call cost, not what the window holds."""
        return max(0, self.input_tokens - self.cached_tokens) + self.output_tokens

    @classmethod
    def from_provider(cls, usage: Any) -> Usage:
        """Read any provider's usage: ours, a mapping, or an object with the usual names."""
        if isinstance(usage, Usage):
            return usage
        if isinstance(usage, int):
            return cls(usage)
        details = _first(usage, ("input_tokens_details", "prompt_tokens_details"))
        cached = _first(details, ("cached_tokens",)) if details is not None else None
        anthropic_cached = _first(usage, ("cache_read_input_tokens",))
        written = _first(usage, ("cache_creation_input_tokens",)) or 0
        input_tokens = _first(usage, ("input_tokens", "prompt_tokens")) or 0
        if anthropic_cached is not None or written:
            # Anthropic's input_tokens leaves out what it read from and wrote to the cache.
            input_tokens += (anthropic_cached or 0) + written
        return cls(
            input_tokens=input_tokens,
            output_tokens=_first(usage, ("output_tokens", "completion_tokens")) or 0,
            cached_tokens=cached or anthropic_cached or _first(usage, ("cached_tokens",)) or 0,
        )


def _first(holder: Any, names: Iterable[str]) -> Any:
    for name in names:
        value = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
        if value is not None:
            return value
    return None


# A provider's count of the same request differs from ours by its own framing, not by an order of magnitude.
_LOWEST_CORRECTION, _HIGHEST_CORRECTION = 0.5, 4.0


def correction_factor(reported_tokens: int, estimated_tokens: int) -> float:
    """The factor that turns our count of a request into the provider's."""
    if reported_tokens <= 0 or estimated_tokens <= 0:
        return 1.0
    return min(_HIGHEST_CORRECTION, max(_LOWEST_CORRECTION, reported_tokens / estimated_tokens))
