"""Cells of projects and sessions."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from ingest import cells

PROJECTS = st.integers(1, 2**31 - 1)


@given(PROJECTS, PROJECTS, st.uuids())
def test_a_cell_belongs_to_one_project(project_id: int, other_id: int, key: uuid.UUID) -> None:
    """A session is in a cell of its project, and two projects share none. The audit log has its own."""
    own = cells.cells_of(project_id)
    assert cells.cell_of_new(own, key) in own
    assert {cells.project_of(cell) for cell in own} == {project_id}
    assert other_id == project_id or not set(own) & set(cells.cells_of(other_id))
    assert cells.AUDIT_LOG not in own
    assert sorted(cells.cells_of(project_id, other_id)) == sorted(own + cells.cells_of(other_id))
