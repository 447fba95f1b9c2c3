"""The only task of a process that writes spans: group commit, and an answer after it.

Whatever arrived while the last commit ran is the next one; no timer delays a lonely request. What is waiting is
bounded in events and bytes, and whoever waits is told to come back when the database does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import psycopg
from django.conf import settings
from psycopg import errors as pg

from ingest.decoding.json_body import mended
from ingest.decoding.records import Rejection, Span, Trace
from ingest.http import metrics
from ingest.http.errors import Unavailable, describe
from ingest.storage import partitions
from ingest.storage.commit import Committed, SpanKey, write
from ingest.storage.connections import connect, presence
from ingest.storage.messages import Stored
from ingest.storage.notifications import publish

logger = logging.getLogger("ariadne.ingest")

Record = Span | Trace
# A group is one COPY: large enough that its fixed costs vanish, small enough that packing it holds no page up.
GROUP_MAX_RECORDS = 2_000
GROUP_MAX_BYTES = 16 * 1024 * 1024
QUEUE_MAX_BYTES = 128 * 1024 * 1024
QUEUE_MAX_RECORDS = 100_000
COMMIT_TIMEOUT_S = 20.0
_RECONNECT_MIN_S, _RECONNECT_MAX_S = 0.05, 2.0
_OPEN_REMEMBERED = 200_000
_ATTEMPTS = 4
# A plan made for a day's first rows would look through a whole session for each key when there are many.
_FIRST_PLAN_ROWS = 1_000

_Gone = (psycopg.OperationalError, psycopg.InterfaceError, OSError, TimeoutError)
# Classes of SQLSTATE that blame the data: bad values, broken constraints, values beyond a limit. Anything else is the
# server's trouble, and a client must keep its events and send them again.
_OWN_FAULT = {"22", "23", "54"}
_Again = (pg.SerializationFailure, pg.DeadlockDetected)


@dataclass(slots=True)
class Batch:
    """Records of one request, and who waits for them."""

    project_id: int
    records: Sequence[Record]
    size: int
    future: asyncio.Future[list[Rejection]]
    indexes: Sequence[int]
    queued_at: float = field(default_factory=time.monotonic)


class Writer:
    """Takes batches, writes them in groups. One per process and event loop."""

    def __init__(self) -> None:
        self._queue: deque[Batch] = deque()
        self._writing: list[Batch] = []
        self._records = self._bytes = 0
        self._wake = asyncio.Event()
        self._connection: psycopg.AsyncConnection[object] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        # Spans this process stored without an end: the next event about them completes a stored row.
        self._open: OrderedDict[tuple[int, SpanKey], None] = OrderedDict()
        self._messages = Stored()
        self._days: set[object] = set()
        self._rows = 0
        self._plan_again_at = _FIRST_PLAN_ROWS
        self._notices: set[asyncio.Task[bool]] = set()

    async def write(
        self, project_id: int, records: Sequence[Record], *, size: int, indexes: Sequence[int] | None = None
    ) -> list[Rejection]:
        """Store `records`; returns once they are committed, with those that could not be stored."""
        presence.require()
        if self._bytes + size > QUEUE_MAX_BYTES or self._records + len(records) > QUEUE_MAX_RECORDS:
            raise Unavailable("too much is waiting for the database")
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="ingest-writer")
        waiting = [
            self._queued(project_id, part, len(part) * size // max(1, len(records)), of_part)
            for part, of_part in _parts(records, indexes or range(len(records)))
        ]
        self._wake.set()
        try:
            async with asyncio.timeout(settings.INGEST_ANSWER_TIMEOUT_S):
                return [rejection for found in await asyncio.gather(*waiting) for rejection in found]
        except TimeoutError:
            raise Unavailable("the database does not answer") from None

    def _queued(
        self, project_id: int, records: Sequence[Record], size: int, indexes: Sequence[int]
    ) -> asyncio.Future[list[Rejection]]:
        future: asyncio.Future[list[Rejection]] = asyncio.get_running_loop().create_future()
        self._queue.append(Batch(project_id, records, size, future, indexes))
        self._records += len(records)
        self._bytes += size
        return future

    async def close(self) -> None:
        """Commit what was accepted, then stop."""
        self._is_closing = True
        self._wake.set()
        if self._task is not None:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._task, COMMIT_TIMEOUT_S)
        await self._disconnect()

    def give_up(self) -> None:
        """Tell all who wait to come back: the database does not answer. What is being written may yet be stored."""
        self._fail([*self._writing, *self._drain()])

    @property
    def waiting(self) -> tuple[int, int]:
        """How many records and bytes wait for a commit, those being written among them."""
        return self._records, self._bytes

    @property
    def lag_s(self) -> float:
        """How long the oldest waiting batch has waited."""
        oldest = next(iter(self._writing or self._queue), None)
        return 0.0 if oldest is None else time.monotonic() - oldest.queued_at

    async def _run(self) -> None:
        pause_s = _RECONNECT_MIN_S
        while True:
            while not self._queue:
                if self._is_closing:
                    return
                self._wake.clear()
                await self._wake.wait()
            self._writing = self._next_group()
            has_answered = await self._tried(self._writing)
            self._forget(self._writing)
            self._writing = []
            if has_answered:
                pause_s = _RECONNECT_MIN_S
            else:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _RECONNECT_MAX_S)

    async def _tried(self, group: list[Batch]) -> bool:
        """Write a group, or tell its senders to come back; false if the database did not answer."""
        try:
            async with asyncio.timeout(COMMIT_TIMEOUT_S):
                await self._commit(group)
            return True
        except _Gone as error:
            await self._disconnect()
            logger.warning("database_away %s", describe(error))
            metrics.database_failures.inc()
            # What queued up meanwhile is told at once; nobody waits for a server that is not there.
            self._fail([*group, *self._drain()])
            return False
        except Exception as error:  # the edge of the task: whatever it is, the next group gets its chance
            await self._disconnect()
            logger.error("commit_failed %s", describe(error))
            metrics.database_failures.inc()
            self._fail(group, "the database refuses to write")
            return True

    def _next_group(self) -> list[Batch]:
        group: list[Batch] = []
        records = size = 0
        while self._queue:
            batch = self._queue[0]
            if group and (records + len(batch.records) > GROUP_MAX_RECORDS or size + batch.size > GROUP_MAX_BYTES):
                break
            self._queue.popleft()
            # Its sender has gone and will send it again.
            if batch.future.done():
                self._forget([batch])
                continue
            group.append(batch)
            records += len(batch.records)
            size += batch.size
        return group

    def _drain(self) -> list[Batch]:
        batches = list(self._queue)
        self._queue.clear()
        self._forget(batches)
        return batches

    def _forget(self, batches: list[Batch]) -> None:
        for batch in batches:
            self._records -= len(batch.records)
            self._bytes -= batch.size

    def _fail(self, batches: list[Batch], reason: str = "the database is away") -> None:
        for batch in batches:
            if not batch.future.done():
                batch.future.set_exception(Unavailable(reason))

    async def _commit(self, group: list[Batch]) -> None:
        if not group:
            return
        try:
            await self._transaction([(batch.project_id, batch.records) for batch in group])
        except _Gone:
            raise
        except psycopg.Error as error:
            if (error.sqlstate or "")[:2] not in _OWN_FAULT:
                raise
            logger.warning("group_refused sqlstate=%s requests=%d", error.sqlstate, len(group))
            for batch in group:
                self._answer(batch, await self._salvage(batch))
            return
        for batch in group:
            self._answer(batch, [])

    def _answer(self, batch: Batch, rejections: list[Rejection]) -> None:
        metrics.ack_seconds.observe(time.monotonic() - batch.queued_at)
        if not batch.future.done():
            batch.future.set_result(rejections)

    async def _salvage(self, batch: Batch) -> list[Rejection]:
        """Store what can be stored of a batch that Postgres refused as a whole."""
        for record in batch.records:
            _mend(record)
        rejections: list[Rejection] = []
        parts = [list(zip(batch.indexes, batch.records, strict=True))]
        while parts:
            part = parts.pop()
            try:
                await self._transaction([(batch.project_id, [record for _, record in part])])
            except _Gone:
                raise
            except psycopg.Error as error:
                if (error.sqlstate or "")[:2] not in _OWN_FAULT:
                    raise
                if len(part) == 1:
                    rejections.append(Rejection(part[0][0], "", f"cannot be stored ({error.sqlstate})"))
                else:
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]
        return sorted(rejections, key=lambda rejection: rejection.index)

    async def _transaction(self, parts: list[tuple[int, Sequence[Record]]]) -> None:
        """Write and commit, then tell the readers."""
        by_project: dict[int, list[Record]] = {}
        for project_id, records in parts:
            by_project.setdefault(project_id, []).extend(records)
        is_sure = True
        for attempt in range(_ATTEMPTS):
            is_new = self._connection is None or self._connection.closed
            connection = await self._connected()
            await self._partition_for_today(connection)
            began = time.monotonic()
            try:
                async with connection.transaction():
                    cursor = connection.cursor()
                    done = [
                        await write(
                            cursor,
                            project_id,
                            records,
                            maybe_stored=_Open(self._open, project_id) if is_sure else None,
                            known_messages=self._messages,
                        )
                        for project_id, records in sorted(by_project.items())
                    ]
            except (pg.UniqueViolation, pg.InternalError_):
                # A span that was stored before came again: look every one of them up. (Citus calls a duplicate in a
                # COPY an internal error.)
                if not is_sure:
                    raise
                is_sure = False
            except pg.CheckViolation:
                if attempt:
                    raise
                self._days.clear()
            except _Gone:
                # A connection that died while nobody used it is no sign that the server is away.
                if is_new or not connection.closed:
                    raise
                await self._disconnect()
            except _Again:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                metrics.commit_seconds.observe(time.monotonic() - began)
                for committed in done:
                    self._after(committed)
                await self._plan_again(connection)
                return
        raise Unavailable("the database refuses to commit")

    def _after(self, done: Committed) -> None:
        for key in done.closed:
            self._open.pop((done.project_id, key), None)
        for key in done.opened:
            self._open[done.project_id, key] = None
        while len(self._open) > _OPEN_REMEMBERED:
            self._open.popitem(last=False)
        self._messages.remember(done.project_id, done.messages, done.day)
        metrics.stored.inc(done.stored)
        self._rows += done.stored
        if done.sessions:
            task = asyncio.create_task(publish(done.project_id, done.seq, done.sessions))
            self._notices.add(task)
            task.add_done_callback(self._notices.discard)

    async def _plan_again(self, connection: psycopg.AsyncConnection[object]) -> None:
        """Forget the plans each time that the day's rows have doubled; statistics come a minute too late."""
        if self._rows >= self._plan_again_at:
            self._plan_again_at = 2 * self._rows
            await connection.execute("DISCARD PLANS")

    async def _connected(self) -> psycopg.AsyncConnection[object]:
        if self._connection is None or self._connection.closed:
            self._days.clear()
            # Another server, or the same one restored from a backup.
            self._messages = Stored()
            self._connection = await connect(application="ariadne-writer")
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close()

    async def _partition_for_today(self, connection: psycopg.AsyncConnection[object]) -> None:
        today = datetime.now(UTC).date()
        if today in self._days:
            return
        for day in partitions.days_from(today, ahead=1):
            await connection.execute(partitions.create_statement(day))
        self._days = {today}
        self._rows, self._plan_again_at = 0, _FIRST_PLAN_ROWS


def _parts(records: Sequence[Record], indexes: Sequence[int]) -> Iterator[tuple[Sequence[Record], Sequence[int]]]:
    """A large request as several commits: one that takes too long is sent again, and what was stored is not lost."""
    for first in range(0, len(records), GROUP_MAX_RECORDS):
        part = slice(first, first + GROUP_MAX_RECORDS)
        yield records[part], indexes[part]


class _Open:
    """The open spans of one project."""

    def __init__(self, known: OrderedDict[tuple[int, SpanKey], None], project_id: int) -> None:
        self._known = known
        self._project_id = project_id

    def __bool__(self) -> bool:
        return bool(self._known)

    def __contains__(self, key: object) -> bool:
        return (self._project_id, key) in self._known


def _mend(record: Record) -> None:
    """Take out of a record's JSON what only Postgres objects to, such as 1e999999."""
    if isinstance(record, Trace):
        record.metadata = mended(record.metadata)
        return
    record.data = mended(record.data)
    if record.payload is not None:
        record.payload = mended(record.payload)
