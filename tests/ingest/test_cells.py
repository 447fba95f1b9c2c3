"""Cells of projects and sessions."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest import cells
from ingest.models import session_key

PROJECT = 41
PROJECTS = st.integers(1, 2**31 - 1)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[int, ...]]:
    """The numbers of cells of large projects, of which there are none."""
    history: dict[int, tuple[int, ...]] = {}
    monkeypatch.setattr(cells, "COUNTS", history)
    return history


@given(PROJECTS, st.uuids())
def test_project_has_one_cell_at_first(project_id: int, key: uuid.UUID) -> None:
    """All of its sessions are in this cell, which no other project has."""
    (cell,) = cells.cells_of(project_id)
    assert cells.candidates(project_id, key) == (cell,)
    assert cells.project_of(cell) == project_id
    assert cell not in cells.cells_of(project_id + 1)


def test_new_sessions_are_spread_over_the_cells_of_a_large_project(counts: dict[int, tuple[int, ...]]) -> None:
    """Each of eight cells gets about an eighth, and no other project's cell gets any."""
    counts[PROJECT] = (1, 4, 8)
    sizes = Counter(cells.candidates(PROJECT, session_key(PROJECT, f"s{number}"))[0] for number in range(4000))
    assert sorted(sizes) == list(cells.cells_of(PROJECT))
    assert min(sizes.values()) > 400
    assert {cells.project_of(cell) for cell in sizes} == {PROJECT}


def test_session_keeps_its_candidates_when_the_project_grows(counts: dict[int, tuple[int, ...]]) -> None:
    """A session has at most one candidate for each count, and growth only adds one before the others."""
    keys = [session_key(PROJECT, f"s{number}") for number in range(500)]
    before = {key: cells.candidates(PROJECT, key) for key in keys}
    for history in ((1, 4), (1, 4, 8)):
        counts[PROJECT] = history
        for key in keys:
            now = cells.candidates(PROJECT, key)
            assert len(now) <= len(history)
            assert set(now) >= set(before[key])
            assert set(now) <= set(cells.cells_of(PROJECT))
            before[key] = now


def test_keys_start_with_the_cell() -> None:
    """No table is keyed by anything before its cell."""
    assert {key[0] for key in cells.KEYS.values()} == {"cell"}
    assert cells.project_of(cells.AUDIT_LOG) == 0
