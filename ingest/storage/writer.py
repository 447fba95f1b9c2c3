"""Accept the records of requests and answer after their commit, within limits.

Each node of a cluster has its own lane (`lane`), which commits in groups, so a node that is slow or down delays only
the cells it holds. A single server has one lane. The queues are bounded in records and bytes, and each project and key
in seconds of measured capacity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from django.conf import settings

from ingest.cells import cells_of
from ingest.decoding.raw_records import Rejection
from ingest.decoding.records import Record
from ingest.errors import Unavailable
from ingest.storage.backlog import Backlog
from ingest.storage.database.connections import Node
from ingest.storage.database.db_probe import DatabaseProbe
from ingest.storage.lane import Batch, Lane

# Larger requests are committed in parts, so that a retry after a timeout does not start from zero and other projects
# get their turn in between.
CHUNK_RECORDS = 500
QUEUE_MAX_BYTES = 128 * 1024 * 1024
QUEUE_MAX_RECORDS = 100_000


async def _default_node(_cell: int) -> None:
    return None


class Writer:
    """Queue batches in the lanes of their nodes. Each event loop has one writer."""

    def __init__(
        self,
        *,
        is_decoding: Callable[[], bool] = lambda: False,
        node_of: Callable[[int], Awaitable[Node | None]] = _default_node,
    ) -> None:
        """`is_decoding` returns True while a worker decodes a body, whose records will be written next.

        `node_of` returns the node that holds a cell.
        """
        self._is_decoding = is_decoding
        self._node_of = node_of
        self.backlog = Backlog(max_s=settings.INGEST_MAX_BACKLOG_S)
        self._lanes: dict[Node | None, Lane] = {}
        self._probes: dict[Node, DatabaseProbe] = {}

    async def write(
        self,
        project_id: int,
        records: Sequence[Record],
        *,
        size: int,
        indexes: Sequence[int] | None = None,
        key_id: int = 0,
    ) -> list[Rejection]:
        """Store `records` and return after their commit, with a rejection for each record that cannot be stored.

        Raise `RateLimited` if the project or the key already has too many records in the queue.
        """
        lane = self.lane(await self._node_of(cells_of(project_id)[0]))
        lane.availability.require_available()
        self.backlog.require_room(project_id, key_id)
        pending_records, pending_bytes = self.pending
        if pending_bytes + size > QUEUE_MAX_BYTES or pending_records + len(records) > QUEUE_MAX_RECORDS:
            raise Unavailable("The write queue is full. Try again later.")
        batches = [
            Batch(project_id, key_id, chunk, len(chunk) * size // max(1, len(records)), chunk_indexes)
            for chunk, chunk_indexes in _chunks(records, indexes or range(len(records)))
        ]
        lane.append(batches)
        try:
            async with asyncio.timeout(settings.INGEST_ANSWER_TIMEOUT_S):
                answers = await asyncio.gather(*(batch.future for batch in batches))
        except TimeoutError:
            raise Unavailable("The database did not respond in time. Try again later.") from None
        return [rejection for rejections in answers for rejection in rejections]

    def lane(self, node: Node | None) -> Lane:
        """Return the lane of a node, which is None for the default database."""
        lane = self._lanes.get(node)
        if lane is None:
            lane = self._lanes[node] = Lane(self.backlog, is_decoding=self._is_decoding, node=node)
            if node is not None:
                self._probes[node] = DatabaseProbe(
                    on_unavailable=lane.fail_pending, node=node, status=lane.availability
                )
        return lane

    async def close(self) -> None:
        """Commit the accepted batches, then stop."""
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
        for probe in self._probes.values():
            await probe.close()

    def fail_pending(self) -> None:
        """Fail the requests that wait for the default database because it is unavailable. Those of nodes go on."""
        if lane := self._lanes.get(None):
            lane.fail_pending()

    @property
    def pending(self) -> tuple[int, int]:
        """Number of records and bytes that are queued or being committed."""
        lanes = self._lanes.values()
        return sum(lane.pending_records for lane in lanes), sum(lane.pending_bytes for lane in lanes)

    @property
    def lag_s(self) -> float:
        """Age of the oldest pending batch in seconds."""
        return max((lane.lag_s for lane in self._lanes.values()), default=0.0)


def _chunks(records: Sequence[Record], indexes: Sequence[int]) -> Iterator[tuple[Sequence[Record], Sequence[int]]]:
    """Split a large request into parts that may be committed separately."""
    for first in range(0, len(records), CHUNK_RECORDS):
        chunk = slice(first, first + CHUNK_RECORDS)
        yield records[chunk], indexes[chunk]
