"""Batches wait for bodies that are being decoded, so that one commit stores both. Batches with few records do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any

import pytest

from ingest.decoding.records import Record, Trace
from ingest.storage import lane as lane_module
from ingest.storage.writer import Writer


class Commits:
    """Transactions that only remember the number of records in each batch of each commit."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []

    async def run(self, parts: Iterable[tuple[int, Sequence[Record]]]) -> None:
        self.groups.append([len(records) for _, records in parts])

    async def disconnect(self) -> None:
        pass


def write(*sizes: int, is_decoding: bool, projects: Sequence[int] = (1,)) -> list[list[int]]:
    """Write one batch after the other, each before the previous one is committed. Return the commits.

    The batches belong to `projects` in turn.
    """
    commits = Commits()

    async def run() -> None:
        writer = Writer(is_decoding=lambda: is_decoding)
        writer.lane(None)._transactions = commits  # type: ignore[assignment]
        tasks = []
        for size, project_id in zip(sizes, cycle(projects), strict=False):
            records: Any = [Trace(str(number), "", None, None, None, None, b"{}") for number in range(size)]
            tasks.append(asyncio.create_task(writer.write(project_id, records, size=size)))
            # Several turns of the event loop, in which the writer could start a commit.
            for _ in range(5):
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        await writer.close()

    asyncio.run(run())
    return commits.groups


def test_a_batch_waits_for_a_body_that_is_being_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "_MAX_WAIT_S", 60.0)
    assert write(100, 100, is_decoding=True) == [[100, 100]]
    assert write(100, 100, is_decoding=False) == [[100], [100]]


def test_a_batch_with_few_records_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes waiting batches with it."""
    monkeypatch.setattr(lane_module, "_MAX_WAIT_S", 60.0)
    assert write(1, is_decoding=True) == [[1]]
    assert write(100, 1, is_decoding=True) == [[100, 1]]


def test_a_batch_does_not_wait_while_several_projects_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "_MAX_WAIT_S", 60.0)
    assert write(1, 100, 100, is_decoding=True, projects=(1, 2)) == [[1], [100], [100]]


def test_the_wait_is_limited() -> None:
    """The body may take long to decode, or be rejected."""
    assert write(100, is_decoding=True) == [[100]]
