"""First step of the ladder: move large tool results to the artifact store and leave pointers."""

from __future__ import annotations

from collections.abc import Sequence

from compact.messages.units import Unit
from compact.planning.plan import ExternalizationRecord
from compact.planning.strategies.base import CompactionProposal, StrategyContext
from compact.planning.tool_results.artifacts import Sensitivity, highest_sensitivity
from compact.planning.tool_results.durability import ToolDurability
from compact.summary.entries import ArtifactReference, Note
from compact.summary.structured_summary import StructuredSummary

POINTER_TOKENS = 90  # the cost of a pointer with its two lines of description


class ExternalizeStrategy:
    """Replaces tool groups with pointers to stored artifacts."""

    name = "externalize"
    aggressiveness = 1

    def analyze(
        self, context: StrategyContext, candidates: Sequence[Unit], *, tokens_to_free: int
    ) -> list[CompactionProposal]:
        """Propose every tool group that is large or cannot be replayed."""
        # Rehydrated content must not push other content out in the same turn, or the two would alternate forever.
        if not context.can_externalize or context.is_after_rehydration:
            return []
        proposals = []
        for unit in candidates:
            tokens = context.sizes[unit.first]
            reason = _reason(context, unit, tokens)
            if reason is not None:
                span = context.span((unit,))
                proposals.append(CompactionProposal(self.name, span, tokens - POINTER_TOKENS, reason, (unit,)))
        return proposals

    def sensitivity(self, proposal: CompactionProposal, context: StrategyContext) -> Sensitivity:
        """Return the highest sensitivity of the tools whose results are moved."""
        levels = [context.durability_of(call).sensitivity for _, call, _ in context.envelopes(proposal.units[0])]
        return highest_sensitivity(levels)

    def execute(self, proposal: CompactionProposal, context: StrategyContext, result: str) -> ExternalizationRecord:
        """Return the record that points to the artifact id in `result`."""
        unit = proposal.units[0]
        calls = [call for _, call, _ in context.envelopes(unit)]
        tools = ", ".join(dict.fromkeys(call.name for call in calls if call.name)) or "tool"
        hint = f"read if you need the full output of {tools}({_one_line(calls[0].arguments if calls else '')})"
        ids = proposal.span.message_ids
        summary = StructuredSummary(
            span=proposal.span,
            style="brief",
            facts=(Note(f"{tools}: {_one_line(context.messages[unit.last].text, 160)}", ids),),
            artifacts=(ArtifactReference(result, tools, hint, ids),),
        )
        return ExternalizationRecord(proposal.span, result, summary, hint)


def _reason(context: StrategyContext, unit: Unit, tokens: int) -> str | None:
    """Return the reason to externalize a unit, or None to leave it."""
    if tokens <= POINTER_TOKENS:
        return None
    envelopes = context.envelopes(unit)
    if not envelopes:
        return None
    if all(item.durability is ToolDurability.EPHEMERAL for _, _, item in envelopes):
        return None
    if any(item.durability is ToolDurability.NON_REPLAYABLE for _, _, item in envelopes):
        return "non-replayable"
    threshold = min(
        context.policy.externalize_threshold_tokens,
        *(context.durability_of(call).externalize_threshold_tokens for _, call, _ in envelopes),
    )
    return f"{tokens:,} tokens, threshold {threshold:,}" if tokens >= threshold else None


def _one_line(text: str, limit: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
