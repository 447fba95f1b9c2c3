"""Rung four, the last resort: leave units out, and keep an index of what they were about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from compact.engine.effects import Steps
from compact.messages.units import Unit
from compact.planning.plan import CompactionRecord, DroppedSpanIndex, DropRecord
from compact.planning.strategies.base import CompactionProposal, Workbench

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{3,60}")
_KEYWORDS = 24


class DropStrategy:
    name = "drop"
    aggressiveness = 4

    def analyze(self, bench: Workbench, candidates: Sequence[Unit]) -> list[CompactionProposal]:
        """The oldest units, no more than are needed, as one span."""
        if bench.is_after_rehydration:
            return []
        chosen: list[Unit] = []
        freed = 0
        for unit in candidates:
            if freed >= bench.tokens_to_free:
                break
            chosen.append(unit)
            freed += bench.sizes[unit.first]
        if not chosen:
            return []
        return [CompactionProposal(self.name, bench.span(chosen), freed, "no milder rung was enough", tuple(chosen))]

    def execute(self, proposal: CompactionProposal, bench: Workbench) -> Steps[CompactionRecord]:
        texts = [bench.original(index).text for unit in proposal.units for index in unit.indices]
        words = Counter(word for text in texts for word in _WORD.findall(text[:20_000]))
        keywords = tuple(word for word, _ in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:_KEYWORDS])
        first = next((" ".join(text.split())[:160] for text in texts if text.strip()), "")
        index = DroppedSpanIndex(keywords, first, bench.now)
        return DropRecord(proposal.span, proposal.reason, index)
        yield  # pragma: no cover - makes this a generator like its siblings
