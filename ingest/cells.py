"""Cells: the parts in which growing tables are stored.

A cell is a project, or one of the cells of a large project. Its number is in the column `cell`, the first of each key
of a growing table. A query names the cells it reads, so on a cluster it takes place on their nodes. What is small and
read everywhere has no cell: projects, users, keys, rules and prices.

A project starts with one cell, and `manage.py cells` gives it more. A new session is in the cell that its hash names
then, and stays in it. A reader of a project reads all of `cells_of`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

MAX_PER_PROJECT = 1024
AUDIT_LOG = 0
"""The cell of the audit log. It is one chain over all projects, and no project has the id 0."""

_counts: dict[int, int] = {}
"""The number of cells of the projects that this process has read and that have more than one."""


def learn(counts: Iterable[tuple[int, int]]) -> None:
    """Remember how many cells projects have, as read from the database. Every reader of a project reads this first."""
    for project_id, count in counts:
        if count > 1:
            _counts[project_id] = count
        else:
            _counts.pop(project_id, None)


def project_of(cell: int) -> int:
    """Return the project that a cell belongs to."""
    return cell // MAX_PER_PROJECT


def cells_of(*project_ids: int) -> list[int]:
    """Return all cells of projects."""
    firsts = ((project_id * MAX_PER_PROJECT, _counts.get(project_id, 1)) for project_id in project_ids)
    return [first + number for first, count in firsts for number in range(count)]


def cell_of_new(cells: list[int], session_key: uuid.UUID) -> int:
    """Return the cell of a session that is in none of the cells of its project yet."""
    return cells[session_key.int % len(cells)]
