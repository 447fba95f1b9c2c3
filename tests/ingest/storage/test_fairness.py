"""The write queue serves projects in turn and limits each one before it is full."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ingest.errors import RateLimited
from ingest.http.limits import MemoryLimit
from ingest.storage.backlog import Backlog
from ingest.storage.fair_queue import QUANTUM, FairQueue


@dataclass
class Batch:
    project_id: int
    records: range


def drain(queue: FairQueue[Batch]) -> list[int]:
    served: list[int] = []
    while (batch := queue.peek()) is not None:
        queue.pop()
        served.append(batch.project_id)
    return served


@pytest.mark.req("A-FAIR-1")
def test_a_single_event_does_not_wait_behind_another_project() -> None:
    """Project 1 has 50 full batches in front of the only event of project 2."""
    queue: FairQueue[Batch] = FairQueue()
    for _ in range(50):
        queue.append(1, Batch(1, range(QUANTUM)))
    queue.append(2, Batch(2, range(1)))
    served = drain(queue)
    assert served.index(2) == 1
    assert served.count(1) == 50
    assert not queue


def test_projects_share_by_records_and_not_by_batches() -> None:
    """One project sends batches of 10, the other of 500. Each gets about half of the records."""
    queue: FairQueue[Batch] = FairQueue()
    for _ in range(500):
        queue.append(1, Batch(1, range(10)))
    for _ in range(20):
        queue.append(2, Batch(2, range(500)))
    served = drain(queue)[:250]
    assert 0.5 < served.count(1) * 10 / (served.count(2) * 500) < 2


def test_order_within_a_project_is_kept() -> None:
    queue: FairQueue[Batch] = FairQueue()
    batches = [Batch(1 + number % 3, range(number * 40)) for number in range(30)]
    for batch in batches:
        queue.append(batch.project_id, batch)
    served: list[Batch] = []
    while (batch := queue.peek()) is not None:
        queue.pop()
        served.append(batch)
    for project_id in (1, 2, 3):
        expected = [batch for batch in batches if batch.project_id == project_id]
        assert [batch for batch in served if batch.project_id == project_id] == expected


@pytest.mark.req("A-FAIR-1")
def test_a_busy_project_is_told_when_to_retry_and_others_are_not() -> None:
    """The limit follows the measured capacity, and one key leaves room for the other keys of its project."""
    backlog = Backlog(max_s=2)
    for _ in range(100):
        backlog.observe(1_000, 0.25)
    assert backlog.records_per_s == pytest.approx(4_000, rel=0.01)
    backlog.add(1, 10, 6_500)
    with pytest.raises(RateLimited, match="6,500 records of this key") as limited:
        backlog.require_room(1, 10)
    assert limited.value.retry_after_s == 2
    backlog.require_room(1, 11)
    backlog.add(1, 11, 2_000)
    with pytest.raises(RateLimited, match="8,500 records of this project"):
        backlog.require_room(1, 11)
    backlog.require_room(2, 20)
    backlog.remove(1, 10, 6_500)
    backlog.require_room(1, 10)


def test_groups_are_small_only_while_several_projects_write() -> None:
    backlog = Backlog(max_s=2)
    backlog.add(1, 10, 100)
    assert not backlog.has_several_projects
    backlog.add(2, 20, 1)
    assert backlog.has_several_projects
    assert 100 <= backlog.group_records(2_000) < 1_000


def test_one_project_may_hold_half_of_the_memory_for_bodies() -> None:
    memory = MemoryLimit(100)
    with memory.reserve(40, 1):
        with pytest.raises(RateLimited), memory.reserve(20, 1):
            pass
        with memory.reserve(40, 2):
            assert memory.held_bytes == 80
    with memory.reserve(1_000, 1):
        assert memory.held_bytes == 1_000
    assert memory.held_bytes == 0
