"""Input of one call: the host's messages and everything sent with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from compact.exceptions import CompactError
from compact.planning.tool_results.durability import ToolDurabilityPolicy
from compact.policy import Floor


class CallOptions(TypedDict, total=False):
    """Optional arguments of `preflight` and `manual_compact`."""

    tools: Sequence[Any] | None
    instructions: str | None
    output_schema: Any
    format: str | None
    protected: Collection[int]
    durability: Mapping[str, ToolDurabilityPolicy]
    floor: Floor


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one `preflight` or `manual_compact`."""

    items: Sequence[Any]
    tools: Sequence[Any] | None = None
    instructions: str | None = None
    output_schema: Any = None
    format: str | None = None
    protected: Collection[int] = ()
    durability: Mapping[str, ToolDurabilityPolicy] = field(default_factory=dict)
    """Durability of tools whose functions are not among `tools`, by name."""
    floor: Floor = "turn"
    """The least to keep if the policy does not say."""
    note: str | None = None
    """The reason for a manual compaction, None for a preflight."""

    def __post_init__(self) -> None:
        # A generator could be read only once, but the session compares the list with the one of the next call.
        if isinstance(self.items, str | bytes | Mapping) or not hasattr(self.items, "__getitem__"):
            raise CompactError(f"messages must be a list of messages, not a {type(self.items).__name__}.")


@dataclass(frozen=True, slots=True)
class FixedTokens:
    """Tokens that are sent with every request, beside its messages."""

    tools: int = 0
    """Tool schemas and the output schema."""
    instructions: int = 0
    """A system prompt that is not among the messages."""

    @property
    def total(self) -> int:
        """Tokens of all fixed parts."""
        return self.tools + self.instructions
