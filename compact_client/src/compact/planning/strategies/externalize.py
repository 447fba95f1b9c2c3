"""Rung one: write large tool results to the artifact store and leave a pointer."""

from __future__ import annotations

from collections.abc import Sequence

from compact.engine.effects import Steps, of_store
from compact.messages import Message
from compact.messages.units import Unit
from compact.planning.artifacts import ArtifactMetadata
from compact.planning.durability import ToolDurability
from compact.planning.plan import CompactionRecord, ExternalizationRecord
from compact.planning.strategies.base import CompactionProposal, Workbench
from compact.summary.entries import ArtifactReference, Note
from compact.summary.structured_summary import StructuredSummary

POINTER_TOKENS = 90  # what a pointer and its two lines of description cost
_RANK = {"public": 0, "internal": 1, "confidential": 2, "restricted": 3}


class ExternalizeStrategy:
    name = "externalize"
    aggressiveness = 1

    def analyze(self, bench: Workbench, candidates: Sequence[Unit]) -> list[CompactionProposal]:
        # A loop breaker: what was just brought back must not push other content out in the same turn.
        if bench.artifact_store is None or bench.is_after_rehydration:
            return []
        proposals = []
        for unit in candidates:
            envelopes = bench.envelopes(unit)
            tokens = bench.sizes[unit.first]
            if not envelopes or tokens <= POINTER_TOKENS:
                continue
            cannot_return = any(item.durability is ToolDurability.NON_REPLAYABLE for _, _, item in envelopes)
            threshold = min(
                bench.policy.externalize_threshold_tokens,
                *(bench.durability_of(call).externalize_threshold_tokens for _, call, _ in envelopes),
            )
            if tokens < threshold and not cannot_return:
                continue
            reason = "cannot be had again" if cannot_return else f"{tokens:,} tokens, threshold {threshold:,}"
            proposals.append(
                CompactionProposal(self.name, bench.span((unit,)), tokens - POINTER_TOKENS, reason, (unit,))
            )
        return proposals

    def execute(self, proposal: CompactionProposal, bench: Workbench) -> Steps[CompactionRecord]:
        unit = proposal.units[0]
        content = "\n\n".join(_text(bench.original(index)) for index in unit.indices)
        calls = [call for _, call, _ in bench.envelopes(unit)]
        tools = ", ".join(dict.fromkeys(call.name for call in calls if call.name)) or "tool"
        sensitivity = max((bench.durability_of(call).sensitivity for call in calls), key=_RANK.__getitem__)
        context = bench.security_context
        metadata = ArtifactMetadata(
            thread_id=bench.session_id,
            tenant_id=getattr(context, "tenant_id", None),
            created_at=bench.now,
            sensitivity=sensitivity,
        )
        artifact_id: str = yield from of_store("artifact", lambda: bench.artifact_store.store(content, metadata))
        hint = f"read if you need the full output of {tools}({_brief(calls[0].arguments if calls else '')})"
        ids = proposal.span.message_ids
        summary = StructuredSummary(
            span=proposal.span,
            style="brief",
            facts=(Note(f"{tools}: {_brief(bench.original(unit.last).text, 160)}", ids),),
            artifacts=(ArtifactReference(artifact_id, tools, hint, ids),),
        )
        return ExternalizationRecord(proposal.span, artifact_id, summary, hint)


def _text(message: Message) -> str:
    calls = "\n".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
    return "\n".join(part for part in (calls, message.text) if part)


def _brief(text: str, limit: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
