"""Last step of the ladder: remove units from the prompt and keep an index of their content."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from compact.messages.units import Unit
from compact.planning.plan import DroppedSpanIndex, DropRecord
from compact.planning.strategies.base import CompactionProposal, StrategyContext

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{3,60}")
_MAX_KEYWORDS = 24
_MAX_INDEXED_CHARS = 20_000
_BRIEF_CHARS = 160


class DropStrategy:
    """Removes the oldest units."""

    name = "drop"
    aggressiveness = 4

    def analyze(
        self, context: StrategyContext, candidates: Sequence[Unit], *, tokens_to_free: int
    ) -> list[CompactionProposal]:
        """Propose the oldest units as one span, unless content was just rehydrated."""
        if context.is_after_rehydration:
            return []
        return propose_drop(context, candidates, tokens_to_free=tokens_to_free)

    def execute(self, proposal: CompactionProposal, context: StrategyContext, result: None = None) -> DropRecord:
        """Return the record with the span's most frequent words and its first line."""
        texts = [context.messages[index].text for unit in proposal.units for index in unit.indices]
        counts = Counter(word for text in texts for word in _WORD.findall(text[:_MAX_INDEXED_CHARS]))
        by_frequency = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        keywords = tuple(word for word, _ in by_frequency[:_MAX_KEYWORDS])
        brief = next((" ".join(text.split())[:_BRIEF_CHARS] for text in texts if text.strip()), "")
        return DropRecord(proposal.span, proposal.reason, DroppedSpanIndex(keywords, brief, context.now))


def propose_drop(
    context: StrategyContext,
    candidates: Sequence[Unit],
    *,
    tokens_to_free: int | None,
    reason: str = "no less aggressive strategy freed enough",
) -> list[CompactionProposal]:
    """Propose the oldest units as one span. Without `tokens_to_free`, propose all of them."""
    units: list[Unit] = []
    freed_tokens = 0
    for unit in candidates:
        if tokens_to_free is not None and freed_tokens >= tokens_to_free:
            break
        units.append(unit)
        freed_tokens += context.sizes[unit.first]
    if not units:
        return []
    return [CompactionProposal(DropStrategy.name, context.span(units), freed_tokens, reason, tuple(units))]
