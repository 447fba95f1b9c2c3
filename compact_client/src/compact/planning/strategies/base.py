"""Protocol of a compaction strategy, and the data it works on.

Strategies are pure. `analyze` proposes spans to compact. The engine performs the side effect of a proposal, such as
storing an artifact or calling a summarizer, and `execute` turns its result into a record for the plan. Pinned and
recent messages are never among the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from compact.messages import Message, RedactedMessage, ToolCall
from compact.messages.span import SpanReference
from compact.messages.units import Unit
from compact.planning.plan import CompactionRecord
from compact.planning.tool_results.durability import (
    DEFAULT_POLICY,
    DeterminismMetadata,
    ToolDurabilityPolicy,
    ToolResultEnvelope,
    envelope_for,
)
from compact.policy import CompactPolicy


@dataclass(frozen=True, slots=True)
class CompactionProposal:
    """A span that a strategy would compact, and the tokens this would free."""

    strategy: str
    span: SpanReference
    estimated_tokens_freed: int
    reason: str
    units: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True)
class StrategyContext:
    """The data a strategy may look at."""

    messages: Sequence[RedactedMessage]
    """The request before this compaction, in full and with placeholders. The indices of units refer to it."""
    counts: Sequence[int]
    """The tokens of each message."""
    sizes: Mapping[int, int]
    """The tokens of each unit, by the index of its first message."""
    outputs: Callable[[Message], Sequence[tuple[str, str]]]
    """Returns the call id and text of each tool output in a message."""
    policy: CompactPolicy
    turns: Sequence[int]
    """The user turn of each message."""
    count_outputs: Callable[[int, Collection[str]], int]
    """Returns the tokens of the outputs of some calls in a message, as the prompt shows them."""
    restore: Callable[[str], str]
    """Returns a text with its placeholders replaced, for code that never leaves the process."""
    now: str
    durability: Mapping[str, ToolDurabilityPolicy] = field(default_factory=dict)
    determinism: Mapping[str, DeterminismMetadata] = field(default_factory=dict)
    """Fingerprints of the sources of results, by call id."""
    can_externalize: bool = False
    """True if there is an artifact store."""
    can_summarize: bool = False
    """True if the draft has room for a summary."""
    warn: Callable[[str], None] | None = None
    """Reports a problem that does not stop the compaction."""
    is_after_rehydration: bool = False
    """True if content was rehydrated in this turn, so nothing may be moved out of the prompt to make room for it."""

    def tokens_of(self, units: Sequence[Unit]) -> int:
        """Return the tokens of some units."""
        return sum([self.sizes[unit.first] for unit in units])

    def span(self, units: Sequence[Unit]) -> SpanReference:
        """Return the span that covers some units."""
        indices = sorted(index for unit in units for index in unit.indices)
        ids = tuple(self.messages[index].id or "" for index in indices)
        return SpanReference(ids, self.turns[indices[0]], self.turns[indices[-1]])

    def envelopes(self, unit: Unit) -> list[tuple[int, ToolCall, ToolResultEnvelope]]:
        """Return each tool output of a unit with its message index and its call. A message may hold several."""
        calls = {call.id: call for index in unit.indices for call in self.messages[index].tool_calls}
        envelopes = []
        for index in unit.indices:
            message = self.messages[index]
            name = message.name or str(message.meta.get("tool_name", ""))
            for call_id, text in self.outputs(message):
                call = calls.get(call_id) or ToolCall(call_id, name)
                envelopes.append(
                    (
                        index,
                        call,
                        envelope_for(
                            call, message, self.durability, text=text, determinism=self.determinism.get(call_id)
                        ),
                    )
                )
        return envelopes

    def durability_of(self, call: ToolCall) -> ToolDurabilityPolicy:
        """Return the durability policy of a call's tool."""
        return self.durability.get(call.name, DEFAULT_POLICY)


class CompactionStrategy(Protocol):
    """One step of the ladder."""

    name: str
    aggressiveness: int

    def analyze(
        self, context: StrategyContext, candidates: Sequence[Unit], *, tokens_to_free: int
    ) -> list[CompactionProposal]:
        """Propose what to compact among the candidates, which are ordered from oldest to newest."""
        ...

    def execute(self, proposal: CompactionProposal, context: StrategyContext, result: Any) -> CompactionRecord:
        """Return the record of a proposal. `result` is what its side effect returned, None if it has none."""
        ...
