"""Sequence numbers and locks of cells."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from django.db import connection
from psycopg import errors

from ingest.storage import sequence
from ingest.storage.database.connections import parameters

CELL, OTHER = 1024, 2048


@pytest.fixture
def clients(transactional_db: None) -> Iterator[tuple[psycopg.Connection[Any], psycopg.Connection[Any]]]:
    """Two connections with a transaction each."""
    connection.ensure_connection()
    with psycopg.connect(**parameters()) as first, psycopg.connect(**parameters()) as second:
        second.execute("SET lock_timeout = '100ms'")
        second.commit()
        yield first, second


def take(client: psycopg.Connection[Any], cell: int, count: int) -> int:
    ((first, _cell_count),) = client.execute(*sequence.take(cell, count)).fetchall()  # type: ignore[arg-type]
    return int(first)


def test_numbers_increase_and_do_not_overlap(clients: tuple[psycopg.Connection[Any], ...]) -> None:
    """Also if the clock stands still or goes back. They are at least the microseconds since 1970."""
    client, _ = clients
    began = time.time_ns() // 1000
    numbers = [take(client, CELL, count) for count in (10, 1, 5_000_000, 3, 0, 1)]
    assert began <= numbers[0] <= time.time_ns() // 1000
    for (first, following), count in zip(pairwise(numbers), (10, 1, 5_000_000, 3, 0), strict=True):
        assert following >= first + count
    # Five million numbers reach some seconds into the future.
    assert numbers[3:] == [numbers[2] + 5_000_000, numbers[2] + 5_000_003, numbers[2] + 5_000_003]


def test_a_cell_is_locked_until_its_transaction_ends(clients: tuple[psycopg.Connection[Any], ...]) -> None:
    """Another one waits for it, and gets higher numbers. Other cells are free."""
    first, second = clients
    number = take(first, CELL, 7)
    assert take(second, OTHER, 1)
    second.commit()
    with pytest.raises(errors.LockNotAvailable):
        take(second, CELL, 1)
    second.rollback()
    first.commit()
    assert take(second, CELL, 1) >= number + 7
