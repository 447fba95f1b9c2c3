"""Cells: the parts in which growing tables are stored.

A cell is a project, or one of the cells of a large project. Its number is in the column `cell`, the first of each key
of a growing table. A commit writes to one cell, and a query names the cell it reads, so on a cluster each takes place
on one node. What is small and read everywhere has no cell: projects, users, keys, rules and prices.

Each project has one cell today. A reader of a project reads all of `cells_of`, and a session is in `cell_of`, so that
more cells are a change in this module only.
"""

from __future__ import annotations

import uuid

MAX_PER_PROJECT = 1024
AUDIT_LOG = 0
"""The cell of the audit log. It is one chain over all projects, and no project has the id 0."""


def project_of(cell: int) -> int:
    """Return the project that a cell belongs to."""
    return cell // MAX_PER_PROJECT


def cells_of(*project_ids: int) -> list[int]:
    """Return all cells of projects."""
    return [project_id * MAX_PER_PROJECT for project_id in project_ids]


def cell_of(project_id: int, _session_key: uuid.UUID) -> int:
    """Return the cell of a session."""
    return cells_of(project_id)[0]
