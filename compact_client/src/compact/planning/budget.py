"""Token budget of a request: its breakdown into parts, its limits, and the provider's reported usage.

The six parts always sum to the total. Once a provider reports its own count, later estimates are corrected by it.
"""

from __future__ import annotations

from dataclasses import dataclass

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
