"""Select what a summary keeps: sentences, calls, records and excerpts, by value per token within a budget.

This is budgeted maximum coverage. The value of a candidate is the reuse score of the entities that no selected one
mentions yet, plus a bonus for its summary field. A greedy algorithm selects by value per token and is deterministic.
The constants in `span_index` define the values.

Two kinds of lines come first, each within a share of the budget: the requests, and what the user wants in every summary
(standing instructions, artifacts, and lines that match `keep_keys`).
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from compact.summarizers.extraction.entity_usage import CHARS_PER_TOKEN
from compact.summarizers.extraction.span_index import CALL_FIELDS, LINE_TOKENS, Candidate, SpanIndex
from compact.summary.record_tree import shown_text

_PRIORITY_SHARE: Final = 0.5  # of the budget, at most
_REQUEST_FIELDS: Final = ("current_task", "goals")
_REQUESTS_SHARE: Final = 0.6
_REQUEST_TEXT_SHARE: Final = 0.35  # much less than the share above, because the size of a line is an estimate
_MIN_LINE_TOKENS: Final = 4
_MAX_MISFITS: Final = 64  # The next phase uses a small rest better than the thousandth best line.
_OUTPUT_HALF_VALUE_LINES: Final = 24.0  # after this many lines of one output, the next one is worth half
_CHILD_HALF_VALUE_LINES: Final = 2.0  # the same for records with the same id that other records contain
# How much of an entity's value a line has that neither introduces nor explains the entity.
_BARE_LINE_WORTH: Final = 0.5
# A line of output is hard to interpret without the call that produced it.
_CALL_OF_OUTPUT_VALUE: Final = 0.1  # for each selected line of its output


def request_chars(max_tokens: int) -> int:
    """Return how many characters the requests of a summary may have in total, so that none is left out."""
    return round(max_tokens * _REQUEST_TEXT_SHARE * CHARS_PER_TOKEN)


def _leading_lines(lines: Iterable[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """Return the requests, and what else the user wants in every summary."""
    requests = [line for line in lines if line.field in _REQUEST_FIELDS]
    return requests, [line for line in lines if line.is_priority and line.field not in _REQUEST_FIELDS]


def select_lines(index: SpanIndex, budget_tokens: float, *, spare_tokens: float = 0.0) -> list[Candidate]:
    """Select the best lines within the budget, best first, and the next best ones within `spare_tokens` more."""
    lines = index.candidates
    requests, wanted = _leading_lines(lines)
    selector = _GreedySelector(index.reuse_scores(), index.visible)
    used_tokens = selector.select(requests, budget_tokens * _REQUESTS_SHARE)
    used_tokens += selector.select(wanted, budget_tokens * _PRIORITY_SHARE - used_tokens)
    selector.select(lines, budget_tokens + spare_tokens - used_tokens)
    return selector.lines


class _GreedySelector:
    """Selects candidates by value per token until the budget is used."""

    def __init__(self, reuse_scores: Sequence[float], visible: Iterable[int]) -> None:
        self.lines: list[Candidate] = []
        self._selected_orders: set[int] = set()
        self._reuse_scores = reuse_scores
        # Zero once a selected line explains the entity, and reduced while only a bare line is selected.
        self._values = list(reuse_scores)
        for entity in visible:
            self._values[entity] = 0.0
        self._lines_per_output: Counter[int] = Counter()
        self._records = _RecordTree()
        self._children_per_subject: Counter[int] = Counter()

    def select(self, candidates: list[Candidate], budget_tokens: float) -> float:
        """Select the most valuable candidates and return the number of tokens they use."""
        remaining, selected = budget_tokens, self._selected_orders
        heap = self._heap(candidates) if remaining >= _MIN_LINE_TOKENS else []
        dependents = _Dependents(candidates)
        misfits = 0
        while heap and remaining >= _MIN_LINE_TOKENS and misfits < _MAX_MISFITS:
            _, index = heapq.heappop(heap)
            candidate = candidates[index]
            if candidate.order in selected:
                continue
            tokens = self._records.tokens(candidate)
            if tokens > remaining:
                misfits += 1
                continue
            density = self._density(candidate)
            if density <= 0.0:
                continue
            # Densities decrease, so a line that stays on top after its update is the best one.
            if heap and -density > heap[0][0]:
                heapq.heappush(heap, (-density, index))
                continue
            remaining -= tokens
            self._cover(candidate)
            # The only densities that increase. These lines get a second, newer place in the heap.
            for other in self._add(candidate, candidates, dependents):
                if candidates[other].order not in selected:
                    heapq.heappush(heap, (-self._density(candidates[other]), other))
        return budget_tokens - remaining

    def _heap(self, candidates: list[Candidate]) -> list[tuple[float, int]]:
        """Return the candidates that are worth something and not selected yet, the best first."""
        heap = [
            (-density, index)
            for index, line in enumerate(candidates)
            if line.order not in self._selected_orders and (density := self._density(line)) > 0.0
        ]
        heapq.heapify(heap)
        return heap

    def _add(self, candidate: Candidate, candidates: list[Candidate], dependents: _Dependents) -> list[int]:
        """Add a candidate to the selection. Return the indices of those that are worth more now."""
        self.lines.append(candidate)
        self._selected_orders.add(candidate.order)
        if candidate.block.parent:
            self._children_per_subject[candidate.subject] += 1
        if candidate.block.kind == "output":
            self._lines_per_output[candidate.block.position] += 1
        if candidate.record:
            return dependents.of_record(candidate, self._records.add(candidate))
        call = dependents.call_of(candidate)
        if call is None:
            return []
        candidates[call].bonus += _CALL_OF_OUTPUT_VALUE
        return [call]

    def _cover(self, candidate: Candidate) -> None:
        """Mark the entities of a candidate as covered."""
        values, scores = self._values, self._reuse_scores
        left = {
            entity: min(values[entity], (1.0 - _BARE_LINE_WORTH) * scores[entity]) for entity in candidate.unexplained
        }
        for entity in candidate.entities:
            values[entity] = left.get(entity, 0.0)

    def _density(self, candidate: Candidate) -> float:
        if candidate.after >= 0 and candidate.after not in self._selected_orders:
            return 0.0  # The fields of a record that are used more come first.
        values, value, scores = self._values, candidate.bonus, self._reuse_scores
        for entity in candidate.entities:
            value += values[entity]
        for entity in candidate.unexplained:
            bare_value = (1.0 - _BARE_LINE_WORTH) * scores[entity]
            value -= values[entity] if values[entity] < bare_value else bare_value
        if candidate.subject >= 0:
            # Diminishing returns again: the same card pays for many orders.
            selected = self._children_per_subject[candidate.subject] if candidate.block.parent else 0
            worth = candidate.subject_worth * _CHILD_HALF_VALUE_LINES / (_CHILD_HALF_VALUE_LINES + selected)
            value += worth * scores[candidate.subject]
        if candidate.block.kind == "output":
            # Diminishing returns: an agent rarely needs a hundred names from one listing.
            selected = self._lines_per_output[candidate.block.position]
            value *= _OUTPUT_HALF_VALUE_LINES / (_OUTPUT_HALF_VALUE_LINES + selected)
        return value / self._records.tokens(candidate)


class _RecordTree:
    """The records that have a line. Their next lines are joined to it, and the records inside need no other heading."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def add(self, line: Candidate) -> set[str]:
        """Add the line of a record. Return the names of the records that had no line and no heading before."""
        names = {line.record, shown_text(line.record, line.block.parent), line.block.parent} - self._names
        self._names |= names
        return names

    def tokens(self, line: Candidate) -> float:
        """Return the tokens that a line adds to the summary."""
        parent = line.block.parent
        if not line.record:
            return line.tokens
        if line.record in self._names:
            return max(1.0, line.tokens - len(shown_text(line.record, parent)) / CHARS_PER_TOKEN - LINE_TOKENS)
        if parent and parent not in self._names:
            return line.tokens + len(parent) / CHARS_PER_TOKEN + LINE_TOKENS
        return line.tokens


class _Dependents:
    """The candidates that are worth more per token once another one is selected."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._calls = {line.text: index for index, line in enumerate(candidates) if line.field in CALL_FIELDS}
        self._next_lines = {line.after: index for index, line in enumerate(candidates) if line.after >= 0}
        self._children: defaultdict[str, list[int]] = defaultdict(list)
        for index, line in enumerate(candidates):
            if line.record and line.block.parent and line.after < 0:
                self._children[line.block.parent].append(index)

    def call_of(self, line: Candidate) -> int | None:
        """Return the index of the call that produced a line of output."""
        return self._calls.get(line.block.call_line) if line.block.call_line else None

    def of_record(self, line: Candidate, new_names: Iterable[str]) -> list[int]:
        """Return the indices of the next line of a record, and of the records inside those that have a line now."""
        next_line = self._next_lines.get(line.order)
        children = [index for name in new_names for index in self._children.get(name, ())]
        return children if next_line is None else [next_line, *children]
