"""Select the lines that keep the most useful entities within a token budget.

This is budgeted maximum coverage. The value of a line is the reuse score of the entities that no selected line mentions
yet, plus a bonus for its summary field. A greedy algorithm selects lines by value per token and is deterministic.

The requests are selected first, then standing instructions, artifacts and lines that match `keep_keys`, together within
half of the budget. The constants in `span_index` define the value of all other lines.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from compact.summarizers.extraction.span_index import CALL_FIELDS, Candidate, SpanIndex

_PRIORITY_SHARE: Final = 0.5  # of the budget, at most
_REQUEST_FIELDS: Final = ("current_task", "goals")
_REQUESTS_SHARE: Final = 0.35
_MIN_LINE_TOKENS: Final = 4
_SUBJECT_VALUE: Final = 0.7  # of the reuse score of a record's id, for each of its lines
_USE_VALUE: Final = 0.3  # of the same score, for each field that is certainly used
_OUTPUT_HALF_VALUE_LINES: Final = 24.0  # after this many lines of one output, the next one is worth half


@dataclass(slots=True)
class Selection:
    """Selected lines, best first, and the reuse score of each entity."""

    lines: list[Candidate]
    reuse_scores: list[float]


def select_lines(index: SpanIndex, budget_tokens: float) -> Selection:
    """Select the best lines within the budget. A prefix of the result is the best selection for a smaller budget."""
    reuse_scores = index.reuse_scores()
    selector = _GreedySelector(reuse_scores, index.visible)
    requests = [line for line in index.candidates if line.field in _REQUEST_FIELDS]
    used_tokens = selector.select(requests, budget_tokens * _REQUESTS_SHARE)
    priority_lines = [line for line in index.candidates if line.is_priority and line.field not in _REQUEST_FIELDS]
    used_tokens += selector.select(priority_lines, budget_tokens * _PRIORITY_SHARE - used_tokens)
    other_lines = [line for line in index.candidates if line.order not in selector.selected_orders]
    selector.select(other_lines, budget_tokens - used_tokens)
    return Selection(selector.lines, reuse_scores)


class _GreedySelector:
    """Selects candidates by value per token until the budget is used."""

    def __init__(self, reuse_scores: Sequence[float], visible: Iterable[int]) -> None:
        self.lines: list[Candidate] = []
        self.selected_orders: set[int] = set()
        self._reuse_scores = reuse_scores
        self._entity_values = list(reuse_scores)  # zero once a selected line mentions the entity
        self._mark_covered(visible)
        self._lines_per_output: Counter[int] = Counter()

    def select(self, candidates: list[Candidate], budget_tokens: float) -> float:
        """Select the most valuable candidates and return the number of tokens they use."""
        remaining = budget_tokens
        heap = [(-density, index) for index, line in enumerate(candidates) if (density := self._density(line)) > 0.0]
        heapq.heapify(heap)
        while heap and remaining >= _MIN_LINE_TOKENS:
            _, index = heapq.heappop(heap)
            candidate = candidates[index]
            if candidate.tokens > remaining:
                continue
            density = self._density(candidate)
            if density <= 0.0:
                continue
            # Values only ever decrease, so a line that stays on top after its update is the best one.
            if heap and -density > heap[0][0]:
                heapq.heappush(heap, (-density, index))
                continue
            remaining -= candidate.tokens
            self.lines.append(candidate)
            self.selected_orders.add(candidate.order)
            if candidate.block.kind == "output":
                self._lines_per_output[candidate.block.position] += 1
            self._mark_covered(candidate.entities)
        return budget_tokens - remaining

    def _mark_covered(self, entities: Iterable[int]) -> None:
        for entity in entities:
            self._entity_values[entity] = 0.0

    def _density(self, candidate: Candidate) -> float:
        entity_values, value = self._entity_values, candidate.bonus
        for entity in candidate.entities:
            value += entity_values[entity]
        if candidate.subject >= 0:
            value += (_SUBJECT_VALUE + _USE_VALUE * candidate.use) * self._reuse_scores[candidate.subject]
        if candidate.block.kind == "output":
            # Diminishing returns: an agent rarely needs a hundred names from one listing.
            selected = self._lines_per_output[candidate.block.position]
            value *= _OUTPUT_HALF_VALUE_LINES / (_OUTPUT_HALF_VALUE_LINES + selected)
        return value / candidate.tokens


def missing_call_lines(index: SpanIndex, lines: Sequence[Candidate]) -> list[Candidate]:
    """Return unselected calls whose output is selected, those with the most output lines per token first.

    A line of output is hard to interpret without the call that produced it.
    """
    present = {line.text for line in lines}
    output_lines = Counter(
        line.block.call_line for line in lines if line.block.call_line and line.block.call_line not in present
    )
    calls = [line for line in index.candidates if line.field in CALL_FIELDS and line.text in output_lines]
    return sorted(calls, key=lambda line: (-output_lines[line.text] / line.tokens, line.order))
