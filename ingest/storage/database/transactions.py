"""Write transactions on one connection: retries, today's partition, caches and notifications."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime

import psycopg
from psycopg import errors as pg

from ingest import metrics
from ingest.cells import cells_of
from ingest.decoding.records import Record
from ingest.errors import Unavailable
from ingest.storage.cell_assignment import Assigned, assign
from ingest.storage.commit import CellsChanged, Committed, SpanKey, rebuild_aggregates, write
from ingest.storage.database import partitions
from ingest.storage.database.connections import CONNECTION_ERRORS, Node, connect
from ingest.storage.database.pipeline import Pipeline
from ingest.storage.messages import KnownMessages
from ingest.storage.notifications import publish

_MAX_ATTEMPTS = 4
_RETRIES: dict[type[Exception], int] = {
    pg.CheckViolation: 1,  # No partition matches: midnight passed, or another process dropped it.
    pg.SerializationFailure: _MAX_ATTEMPTS - 1,
    pg.DeadlockDetected: _MAX_ATTEMPTS - 1,
}
_MAX_OPEN_SPANS = 200_000
# Plans for the first rows of a day's partition are bad ones for many rows.
_FIRST_REPLAN_ROWS = 1_000

Connection = psycopg.AsyncConnection[object]


class Transactions:
    """Run write transactions on one connection, to the default database or to a node of its cluster."""

    def __init__(self, node: Node | None = None) -> None:
        self._node = node
        self._pipeline: Pipeline | None = None
        self._open_spans = OpenSpans()
        self._messages = KnownMessages()
        self._partition_days: set[date] = set()
        self._written_rows = 0
        self._replan_at_rows = _FIRST_REPLAN_ROWS
        self._notifications: set[asyncio.Task[bool]] = set()

    async def run(self, parts: Iterable[tuple[int, Sequence[Record]]]) -> None:
        """Write records, given with their project, in one transaction. Then notify readers."""
        by_project = _group_by_project(parts)
        looks_up_all = False
        for attempt in range(_MAX_ATTEMPTS):
            is_new = not self._is_connected
            pipeline = await self._connect()
            await self._create_partitions(pipeline.connection)
            try:
                results = await self._write(pipeline, by_project, looks_up_all=looks_up_all)
            except (pg.UniqueViolation, pg.InternalError_):
                # A span is already stored that this process does not know of, so look all of them up. Citus reports a
                # duplicate in a COPY as an internal error.
                if looks_up_all:
                    raise
                looks_up_all = True
            except tuple(_RETRIES) as error:
                if attempt >= _RETRIES[type(error)]:
                    raise
                self._partition_days.clear()
            except CellsChanged:
                continue
            except CONNECTION_ERRORS:
                # A connection that was dropped while idle does not mean that the server is down.
                if is_new or not pipeline.connection.closed:
                    raise
                await self.disconnect()
            else:
                for result in results:
                    self._finish(result)
                await self._discard_plans_if_due(pipeline.connection)
                return
        raise Unavailable("The database could not commit. Try again later.")

    @property
    def _is_connected(self) -> bool:
        return self._pipeline is not None and not self._pipeline.connection.closed

    async def _write(
        self, pipeline: Pipeline, by_project: dict[int, list[Record]], *, looks_up_all: bool
    ) -> list[Committed]:
        started_at = time.monotonic()
        results: list[Committed] = []
        async with pipeline.transaction():
            for project_id, records in sorted(by_project.items()):
                cells = cells_of(project_id)
                assigned = Assigned({cells[0]: records})
                if len(cells) > 1:
                    assigned = await assign(pipeline, cells, records)
                for cell, cell_records in sorted(assigned.records.items()):
                    open_spans = None if looks_up_all else self._open_spans.of_cell(cell)
                    results.append(
                        await write(
                            pipeline, cell, cell_records, maybe_stored=open_spans, known_messages=self._messages
                        )
                    )
                for cell, days in assigned.reduced.items():
                    seq = await rebuild_aggregates(pipeline, cell, set(days), days)
                    results.append(Committed(cell, seq, sessions=set(days)))
        metrics.commit_seconds.observe(time.monotonic() - started_at)
        return results

    def _finish(self, result: Committed) -> None:
        """Update caches and metrics after a commit, and notify readers."""
        self._open_spans.update(result)
        self._messages.add(result.cell, result.messages, result.day)
        metrics.stored.inc(result.stored)
        self._written_rows += result.stored
        if result.sessions:
            task = asyncio.create_task(publish(result.cell, result.seq, result.sessions))
            self._notifications.add(task)
            task.add_done_callback(self._notifications.discard)

    async def _discard_plans_if_due(self, connection: Connection) -> None:
        """Discard prepared plans each time the day's rows double. Autovacuum's statistics come a minute too late."""
        if self._written_rows >= self._replan_at_rows:
            self._replan_at_rows = 2 * self._written_rows
            await connection.execute("DISCARD PLANS")

    async def _connect(self) -> Pipeline:
        if self._pipeline is None or self._pipeline.connection.closed:
            self._partition_days.clear()
            # It may be another server, or one that was restored from a backup.
            self._messages = KnownMessages()
            self._pipeline = Pipeline(await connect(application="ariadne-writer", node=self._node))
        return self._pipeline

    async def disconnect(self) -> None:
        """Close the connection. The next transaction opens a new one."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            with contextlib.suppress(Exception):
                await pipeline.connection.close()

    async def _create_partitions(self, connection: Connection) -> None:
        today = datetime.now(UTC).date()
        if today in self._partition_days:
            return
        async with contextlib.AsyncExitStack() as stack:
            if self._node is not None:
                # Citus changes tables only through its coordinator.
                connection = await connect(application="ariadne-writer")
                stack.push_async_callback(connection.close)
            for day in partitions.upcoming_days(today, ahead=1):
                await connection.execute(partitions.create_statement(day))
        self._partition_days = {today}
        self._written_rows, self._replan_at_rows = 0, _FIRST_REPLAN_ROWS


class OpenSpans:
    """Spans that this process stored without an end. The next event for one of them updates a stored row."""

    def __init__(self) -> None:
        self._keys: OrderedDict[tuple[int, SpanKey], None] = OrderedDict()

    def update(self, result: Committed) -> None:
        for key in result.closed:
            self._keys.pop((result.cell, key), None)
        for key in result.opened:
            self._keys[result.cell, key] = None
        while len(self._keys) > _MAX_OPEN_SPANS:
            self._keys.popitem(last=False)

    def of_cell(self, cell: int) -> CellOpenSpans:
        return CellOpenSpans(self._keys, cell)


class CellOpenSpans:
    """Open spans of one cell, as a container of span keys."""

    def __init__(self, keys: OrderedDict[tuple[int, SpanKey], None], cell: int) -> None:
        self._keys = keys
        self._cell = cell

    def __contains__(self, key: object) -> bool:
        return (self._cell, key) in self._keys


def _group_by_project(parts: Iterable[tuple[int, Sequence[Record]]]) -> dict[int, list[Record]]:
    by_project: dict[int, list[Record]] = {}
    for project_id, records in parts:
        by_project.setdefault(project_id, []).extend(records)
    return by_project
