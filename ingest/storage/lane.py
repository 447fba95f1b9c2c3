"""Group commits on one node: queue batches, write them in groups, and acknowledge each batch after its commit.

Batches that arrive during a commit form the next group, so a single request never waits for a timer. Each project has
its own queue, and groups are filled by deficit round-robin (`fair_queue`), so a project that floods the server delays
only itself. Pending requests fail immediately when the node becomes unavailable.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import errors as pg

from ingest import metrics
from ingest.decoding import lenient_json
from ingest.decoding.raw_records import Rejection
from ingest.decoding.records import Record, Trace
from ingest.errors import Unavailable, describe
from ingest.storage.backlog import Backlog
from ingest.storage.database.connections import CONNECTION_ERRORS, DatabaseStatus, Node, database_status
from ingest.storage.database.transactions import Transactions
from ingest.storage.database.write_failures import WriteEpisode
from ingest.storage.fair_queue import FairQueue

logger = logging.getLogger("ariadne.ingest")

# A group is one COPY: large enough to spread its fixed costs, small enough that packing it does not block the loop.
GROUP_MAX_RECORDS = 2_000
GROUP_MAX_BYTES = 16 * 1024 * 1024
# Half of a commit's time does not depend on its size, so a batch waits this long for the next one if a worker is
# decoding it and no other project writes. A batch with fewer records does not wait, and ends the wait of others.
_MAX_WAIT_S = 0.02
_MIN_WAITING_RECORDS = 50
COMMIT_TIMEOUT_S = 20.0
_RETRY_MIN_S, _RETRY_MAX_S = 0.05, 2.0
# SQLSTATE classes caused by the data: invalid values, violated constraints, exceeded limits. All others are problems of
# the server, and clients must retry.
_SERVER_ERRORS = (*CONNECTION_ERRORS, pg.ReadOnlySqlTransaction, pg.InsufficientPrivilege)
_DATA_ERROR_CLASSES = {"22", "23", "54"}


def _new_future() -> asyncio.Future[list[Rejection]]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class Batch:
    """Records of one request and the future that acknowledges them."""

    project_id: int
    key_id: int
    records: Sequence[Record]
    size: int
    indexes: Sequence[int]
    future: asyncio.Future[list[Rejection]] = field(default_factory=_new_future)
    queued_at: float = field(default_factory=time.monotonic)


class Lane:
    """The write queue of one node, and the connection that empties it."""

    def __init__(self, backlog: Backlog, *, is_decoding: Callable[[], bool], node: Node | None = None) -> None:
        """`is_decoding` returns True while a worker decodes a body, whose records will be written next."""
        self.availability = database_status if node is None else DatabaseStatus()
        self._backlog = backlog
        self._is_decoding = is_decoding
        self._transactions = Transactions(node)
        self._episode = WriteEpisode()
        self._queue: FairQueue[Batch] = FairQueue()
        self._group: list[Batch] = []
        self.pending_records = self.pending_bytes = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    def append(self, batches: Iterable[Batch]) -> None:
        """Queue batches for the next groups."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="ingest-writer")
        for batch in batches:
            self._queue.append(batch.project_id, batch)
            self.pending_records += len(batch.records)
            self.pending_bytes += batch.size
            self._backlog.add(batch.project_id, batch.key_id, len(batch.records))
        self._wake.set()

    def fail_pending(self) -> None:
        """Fail all pending requests because the node is unavailable.

        The commit in progress may still succeed. Clients send the events again, which does not store them twice.
        """
        self._fail([*self._group, *self._drain_queue()])

    @property
    def lag_s(self) -> float:
        """Age of the oldest pending batch in seconds."""
        heads = self._group[:1] or self._queue.heads()
        return time.monotonic() - min(batch.queued_at for batch in heads) if heads else 0.0

    async def close(self) -> None:
        """Commit the accepted batches, then stop."""
        self._is_closing = True
        self._wake.set()
        if self._task is not None:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._task, COMMIT_TIMEOUT_S)
        await self._transactions.disconnect()

    async def _run(self) -> None:
        retry_s = _RETRY_MIN_S
        while True:
            while not self._queue:
                if self._is_closing:
                    return
                self._wake.clear()
                await self._wake.wait()
            await self._wait_for_next_batch()
            self._group = self._next_group()
            began = time.monotonic()
            is_connected = await self._try_commit(self._group)
            if is_connected:
                self._backlog.observe(sum(len(batch.records) for batch in self._group), time.monotonic() - began)
            self._release(self._group)
            self._group = []
            if is_connected:
                retry_s = _RETRY_MIN_S
            else:
                await asyncio.sleep(retry_s)
                retry_s = min(retry_s * 2, _RETRY_MAX_S)

    async def _wait_for_next_batch(self) -> None:
        """Wait for a body that is being decoded, so that its records are part of the next commit."""
        if self._is_closing or not self._is_decoding() or self._backlog.has_several_projects:
            return
        is_small = any(len(batch.records) < _MIN_WAITING_RECORDS for batch in self._queue.heads())
        if is_small or self.pending_records >= GROUP_MAX_RECORDS:
            return
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_WAIT_S):
                await self._wake.wait()

    async def _try_commit(self, group: list[Batch]) -> bool:
        """Commit a group, or fail its requests. Return False if the database did not respond."""
        try:
            async with asyncio.timeout(COMMIT_TIMEOUT_S):
                await self._commit(group)
            self._episode.succeed()
            return True
        except _SERVER_ERRORS as error:
            await self._transactions.disconnect()
            metrics.database_failures.inc()
            # Batches that were queued during the commit would fail as well.
            self._fail([*group, *self._drain_queue()], self._episode.fail(error).answer)
            return False
        except Exception as error:  # one failed group must not end the writer's task
            await self._transactions.disconnect()
            logger.error("commit_failed %s", describe(error))
            metrics.database_failures.inc()
            self._fail(group, "The database rejected the write. Try again later.")
            return True

    def _next_group(self) -> list[Batch]:
        group: list[Batch] = []
        records = size = 0
        max_records = GROUP_MAX_RECORDS
        # A project with a single event waits for the current group and for its own, so groups are small while several
        # projects write.
        if self._backlog.has_several_projects:
            max_records = self._backlog.group_records(GROUP_MAX_RECORDS)
        while (batch := self._queue.peek()) is not None:
            if group and (records + len(batch.records) > max_records or size + batch.size > GROUP_MAX_BYTES):
                break
            self._queue.pop()
            # The request already failed, and its client will retry.
            if batch.future.done():
                self._release([batch])
                continue
            group.append(batch)
            records += len(batch.records)
            size += batch.size
        return group

    def _drain_queue(self) -> list[Batch]:
        batches = self._queue.clear()
        self._release(batches)
        return batches

    def _release(self, batches: list[Batch]) -> None:
        for batch in batches:
            self.pending_records -= len(batch.records)
            self.pending_bytes -= batch.size
            self._backlog.remove(batch.project_id, batch.key_id, len(batch.records))

    def _fail(self, batches: list[Batch], message: str = "The database is unavailable. Try again later.") -> None:
        for batch in batches:
            if not batch.future.done():
                batch.future.set_exception(Unavailable(message))

    async def _commit(self, group: list[Batch]) -> None:
        if not group:
            return
        try:
            await self._transactions.run([(batch.project_id, batch.records) for batch in group])
        except psycopg.Error as error:
            if not _is_data_error(error):
                raise
            logger.warning("group_rejected sqlstate=%s requests=%d", error.sqlstate, len(group))
            for batch in group:
                self._acknowledge(batch, await self._commit_valid_records(batch))
            return
        for batch in group:
            self._acknowledge(batch, [])

    def _acknowledge(self, batch: Batch, rejections: list[Rejection]) -> None:
        metrics.ack_seconds.observe(time.monotonic() - batch.queued_at)
        if not batch.future.done():
            batch.future.set_result(rejections)

    async def _commit_valid_records(self, batch: Batch) -> list[Rejection]:
        """Store the valid records of a batch that Postgres rejected as a whole, by bisection."""
        for record in batch.records:
            if isinstance(record, Trace):
                # Values that only Postgres rejects.
                record.metadata = lenient_json.sanitize_encoded(record.metadata)
        rejections: list[Rejection] = []
        parts = [list(zip(batch.indexes, batch.records, strict=True))]
        while parts:
            part = parts.pop()
            try:
                await self._transactions.run([(batch.project_id, [record for _, record in part])])
            except psycopg.Error as error:
                if not _is_data_error(error):
                    raise
                if len(part) == 1:
                    index = part[0][0]
                    rejections.append(Rejection(index, "", f"rejected by the database (SQLSTATE {error.sqlstate})"))
                else:
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]
        return sorted(rejections, key=lambda rejection: rejection.index)


def _is_data_error(error: psycopg.Error) -> bool:
    return (error.sqlstate or "")[:2] in _DATA_ERROR_CLASSES
