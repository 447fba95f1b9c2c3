"""What a rung of the ladder is.

`analyze` looks and proposes, without effects; `execute` carries one proposal out and returns the record for the
plan. Neither sees what is pinned or recent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from compact.engine.effects import Steps
from compact.messages import Message, ToolCall
from compact.messages.span import SpanReference
from compact.messages.units import Unit
from compact.planning.durability import DEFAULT_POLICY, ToolDurabilityPolicy, ToolResultEnvelope, envelope_for
from compact.planning.plan import CompactionRecord
from compact.policy import CompactPolicy


@dataclass(frozen=True, slots=True)
class CompactionProposal:
    """What a strategy would do, and what it would free."""

    strategy: str
    span: SpanReference
    estimated_tokens_freed: int
    reason: str
    units: tuple[Unit, ...] = ()


@dataclass(slots=True)
class Workbench:
    """Everything a strategy may look at."""

    session_id: str
    messages: Sequence[Message]
    """The request before this compaction; units are places in it."""
    counts: Sequence[int]
    sizes: Mapping[int, int]
    """The tokens of each unit, by its first place."""
    originals: Mapping[str, Message]
    """The log's own form of each message, before any cut."""
    outputs: Callable[[Message], Sequence[tuple[str, str]]]
    """The call id and text of each tool output in a message."""
    policy: CompactPolicy
    turns: Sequence[int]
    """The user turn of each message."""
    count_text: Callable[[str], int]
    now: str
    tokens_to_free: int
    durability: Mapping[str, ToolDurabilityPolicy] = field(default_factory=dict)
    artifact_store: Any = None
    security_context: Any = None
    is_after_rehydration: bool = False
    summarize: Callable[[Sequence[Message], SpanReference], Steps[Any]] | None = None

    def tokens_of(self, units: Sequence[Unit]) -> int:
        return sum([self.sizes[unit.first] for unit in units])

    def span(self, units: Sequence[Unit]) -> SpanReference:
        indices = sorted(index for unit in units for index in unit.indices)
        ids = tuple(self.messages[index].id or "" for index in indices)
        return SpanReference(ids, self.turns[indices[0]], self.turns[indices[-1]])

    def original(self, index: int) -> Message:
        message = self.messages[index]
        return self.originals.get(message.id or "", message)

    def envelopes(self, unit: Unit) -> list[tuple[int, ToolCall, ToolResultEnvelope]]:
        """Each output of a unit with its call and envelope; a message may hold several."""
        calls = {call.id: call for index in unit.indices for call in self.messages[index].tool_calls}
        found = []
        for index in unit.indices:
            message, original = self.messages[index], self.original(index)
            name = message.name or str(message.meta.get("tool_name", ""))
            for call_id, text in self.outputs(original):
                call = calls.get(call_id) or ToolCall(call_id, name)
                found.append((index, call, envelope_for(call, original, self.durability, text=text)))
        return found

    def durability_of(self, call: ToolCall) -> ToolDurabilityPolicy:
        return self.durability.get(call.name, DEFAULT_POLICY)


class CompactionStrategy(Protocol):
    """One rung."""

    name: str
    aggressiveness: int

    def analyze(self, bench: Workbench, candidates: Sequence[Unit]) -> list[CompactionProposal]: ...

    def execute(self, proposal: CompactionProposal, bench: Workbench) -> Steps[CompactionRecord]: ...
