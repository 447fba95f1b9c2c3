"""The nodes of a cluster, and which of them holds a cell.

A single server is its own and only node. On Citus, every node can answer every query, but only the one that holds a
cell writes to it without asking another. A process therefore connects to that node. The placements are read from
Citus' metadata and again every few seconds, so they follow a cell that moves and a node that is replaced. Until then
another node passes the query on, which is slower and correct.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg

from ingest.cells import AUDIT_LOG, cells_of
from ingest.errors import RequestError
from ingest.storage.database.connections import Node, connect
from ingest.storage.database.distribution import FIRST
from ingest.storage.database.write_check import CACHE_S, WriteCheck

_REFRESH_S = 5.0
_HAS_METADATA = "SELECT to_regclass('pg_dist_partition') IS NOT NULL"
_IS_DISTRIBUTED = "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass(%s))"
_PLACEMENTS = """
SELECT jsonb_object_agg(cell, jsonb_build_array(nodename, nodeport))
FROM unnest(%s::bigint[]) cell
JOIN pg_dist_placement p ON p.shardid = get_shard_id_for_distribution_column(to_regclass(%s), cell)
JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary'
"""
_PROJECTS = "SELECT array_agg(id) FROM ingest_project"

FetchRow = Callable[[str, tuple[Any, ...]], Awaitable[tuple[Any, ...] | None]]


@dataclass(slots=True)
class Cells:
    """The cells whose nodes accept writes, and the others."""

    available: list[int] = field(default_factory=list)
    unavailable: list[int] = field(default_factory=list)


class Nodes:
    """The nodes of the cells that this process writes to."""

    def __init__(self, fetch_row: FetchRow) -> None:
        self._fetch_row = fetch_row
        self._is_cluster: bool | None = None
        self._of_cell: dict[int, Node] = {}
        self._checks: dict[Node, WriteCheck] = {}
        self._cells: Cells | None = None
        self._checked_at = -CACHE_S
        self._task: asyncio.Task[None] | None = None

    async def of_cell(self, cell: int) -> Node | None:
        """Return the node that holds a cell, or None for the default database."""
        if self._is_cluster is None:
            await self._detect()
        if not self._is_cluster:
            return None
        if cell not in self._of_cell:
            self._of_cell |= await self._read([cell])
        return self._of_cell[cell]

    async def check_cells(self) -> Cells | None:
        """Try a write on each node. Return which cells accept writes, or None on a single server."""
        if time.monotonic() - self._checked_at >= CACHE_S:
            self._checked_at = time.monotonic()
            self._cells = await self._check_cells() if await self._detect() else None
        return self._cells

    async def _check_cells(self) -> Cells:
        (project_ids,) = await self._fetch_row(_PROJECTS, ()) or (None,)
        places = await self._read({AUDIT_LOG, *(cell for project in project_ids or () for cell in cells_of(project))})
        nodes = list(set(places.values()))
        for node in nodes:
            self._checks.setdefault(node, WriteCheck(open_connection=partial(connect, node=node)))
        results = await asyncio.gather(*(self._checks[node].result() for node in nodes))
        reasons = {node: result.reason for node, result in zip(nodes, results, strict=True)}
        cells = Cells()
        for cell, node in sorted(places.items()):
            (cells.unavailable if reasons[node] else cells.available).append(cell)
        return cells

    async def _read(self, cells: Iterable[int]) -> dict[int, Node]:
        (places,) = await self._fetch_row(_PLACEMENTS, (list(cells), FIRST)) or (None,)
        return {int(cell): Node(host, port) for cell, (host, port) in (places or {}).items()}

    async def _detect(self) -> bool:
        """Return True if the tables are distributed, and look again from time to time from now on."""
        (has_metadata,) = await self._fetch_row(_HAS_METADATA, ()) or (False,)
        (is_distributed,) = (has_metadata and await self._fetch_row(_IS_DISTRIBUTED, (FIRST,))) or (False,)
        self._is_cluster = bool(is_distributed)
        if self._task is None:
            self._task = asyncio.create_task(self._refresh(), name="ingest-nodes")
        return self._is_cluster

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_S)
            # While the coordinator is down, the last known places count.
            with contextlib.suppress(RequestError, psycopg.Error):
                if await self._detect():
                    self._of_cell = await self._read(self._of_cell)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for check in self._checks.values():
            await check.close()
