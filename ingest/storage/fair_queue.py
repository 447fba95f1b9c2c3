"""A queue with one line for each project, served by deficit round-robin.

Each turn gives a project the right to `QUANTUM` more records. A project with small batches therefore gets as many
records per round as one with large batches, and one with a single event is served in the next round.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

QUANTUM = 100


class _Batch(Protocol):
    @property
    def records(self) -> Sequence[object]: ...


B = TypeVar("B", bound=_Batch)


class FairQueue(Generic[B]):
    """Batches by project. `peek` returns the batch that `pop` removes."""

    def __init__(self) -> None:
        self._lines: OrderedDict[int, deque[B]] = OrderedDict()
        self._credits: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def append(self, project_id: int, batch: B) -> None:
        if project_id not in self._lines:
            self._lines[project_id] = deque()
            self._credits[project_id] = QUANTUM
        self._lines[project_id].append(batch)

    def peek(self) -> B | None:
        """Return the next batch, or None if the queue is empty."""
        if not self._lines:
            return None
        while True:
            project_id, line = next(iter(self._lines.items()))
            # A batch that is larger than all credit so far waits for several rounds, unless no other project waits.
            if len(line[0].records) <= self._credits[project_id] or len(self._lines) == 1:
                return line[0]
            self._credits[project_id] += QUANTUM
            self._lines.move_to_end(project_id)

    def pop(self) -> None:
        """Remove the batch that `peek` returned."""
        project_id, line = next(iter(self._lines.items()))
        self._credits[project_id] = max(0, self._credits[project_id] - len(line.popleft().records))
        if not line:
            del self._lines[project_id], self._credits[project_id]

    def heads(self) -> list[B]:
        """Return the first batch of each project."""
        return [line[0] for line in self._lines.values()]

    def clear(self) -> list[B]:
        """Remove and return all batches."""
        batches = [batch for line in self._lines.values() for batch in line]
        self._lines.clear()
        self._credits.clear()
        return batches
