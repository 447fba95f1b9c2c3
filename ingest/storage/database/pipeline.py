"""Send the statements of a transaction together, so that a commit waits for Postgres only a few times.

Each wait costs the event loop as much CPU time as a small statement. psycopg's own pipeline mode waits for the socket
before each statement, which costs more than it saves, so this module calls libpq through psycopg's wrapper.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result

Parameters = Sequence[Any] | Mapping[str, Any]
Query = tuple[str, Parameters]
Rows = list[tuple[Any, ...]]
_Key = tuple[str, tuple[int, ...]]
"""A statement and the types of its parameters."""

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\))?s")
_IN_TRANSACTION = {pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR}


class Pipeline:
    """Transactions of one connection, whose statements are prepared on their first use and sent in groups."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection
        self._libpq = connection.pgconn
        self._transformer = Transformer(connection)
        self._queued: list[Query] = []
        self._names: dict[_Key, bytes] = {}
        self._numbers = itertools.count()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit at the end, or roll back after an exception."""
        self._queued = [("BEGIN", ())]
        try:
            yield
            self.queue("COMMIT")
            await self.fetch()
        except BaseException:
            if self._libpq.transaction_status in _IN_TRANSACTION:
                # Not psycopg's own, which also deletes the prepared statements.
                self._queued = [("ROLLBACK", ())]
                await self.fetch()
            elif self._libpq.transaction_status != pq.TransactionStatus.IDLE:
                # In the middle of a response, so the connection cannot be reused.
                self._libpq.finish()
            raise

    def queue(self, statement: str, parameters: Parameters = ()) -> None:
        """Send a statement together with the next ones whose rows are needed."""
        self._queued.append((statement, parameters))

    async def fetch(self, *queries: Query) -> list[Rows]:
        """Run the queued statements, then `queries`. Return the rows of each query."""
        queued, self._queued = [*self._queued, *queries], []
        messages = [self._encode(*query) for query in queued]
        new_names: dict[_Key, bytes] = {}
        self._libpq.enter_pipeline_mode()
        for key, _, _ in messages:
            if key not in self._names and key not in new_names:
                new_names[key] = b"ariadne_%d" % next(self._numbers)
                self._libpq.send_prepare(new_names[key], _to_native(key[0])[0], param_types=key[1])
        for key, values, formats in messages:
            name = self._names.get(key) or new_names[key]
            self._libpq.send_query_prepared(name, values, param_formats=formats)
        self._libpq.pipeline_sync()
        await self._flush()
        results = []
        while (result := await self._next_result()) is None or result.status != pq.ExecStatus.PIPELINE_SYNC:
            if result is not None:
                results.append(result)
        self._libpq.exit_pipeline_mode()
        for result in results:
            _require_success(result)
        self._names |= new_names
        return [self._load(result) for result in results[len(results) - len(queries) :]]

    async def copy(self, statement: str, chunks: Iterator[bytes]) -> None:
        """Run a COPY statement. The first chunk is created while Postgres prepares for it."""
        if self._queued:
            await self.fetch()
        self._libpq.send_query(statement.encode())
        await self._flush()
        chunk = next(chunks, None)
        last = await self._next_result()
        if last is not None and last.status == pq.ExecStatus.COPY_IN:
            while chunk is not None:
                self._libpq.put_copy_data(chunk)
                await self._flush()
                if (chunk := next(chunks, None)) is not None:
                    await asyncio.sleep(0)
            self._libpq.put_copy_end()
            await self._flush()
        while (result := await self._next_result()) is not None:
            last = result
        _require_success(last)

    def _encode(self, statement: str, parameters: Parameters) -> tuple[_Key, Sequence[Any], list[pq.Format] | None]:
        """Return a statement with the types of its parameters, their encoded values, and the formats of these."""
        names = _to_native(statement)[1]
        values = [parameters[name] for name in names] if isinstance(parameters, Mapping) else parameters
        encoded = self._transformer.dump_sequence(values, [PyFormat.AUTO] * len(values))
        return (statement, self._transformer.types or ()), encoded, self._transformer.formats

    def _load(self, result: pq.abc.PGresult) -> Rows:
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    async def _flush(self) -> None:
        """Send what is buffered, and read at the same time, because Postgres may wait until its rows are read."""
        while self._libpq.flush():
            await self._wait(writes=True)
            self._libpq.consume_input()

    async def _next_result(self) -> pq.abc.PGresult | None:
        """Return the next result. None separates statements."""
        while self._libpq.is_busy():
            await self._wait()
            self._libpq.consume_input()
        return self._libpq.get_result()

    async def _wait(self, *, writes: bool = False) -> None:
        """Wait until the socket can be read, or also until it can be written."""
        loop = asyncio.get_running_loop()
        socket = self._libpq.socket
        ready = asyncio.Event()
        loop.add_reader(socket, ready.set)
        if writes:
            loop.add_writer(socket, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(socket)
            if writes:
                loop.remove_writer(socket)


def _require_success(result: pq.abc.PGresult | None) -> None:
    if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
        raise error_from_result(result)


@lru_cache(maxsize=256)
def _to_native(statement: str) -> tuple[bytes, list[str]]:
    """Return a statement with numbered placeholders, and the names of its parameters in that order if it has any."""
    names: list[str] = []
    count = itertools.count(1)

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return f"${next(count)}"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _PLACEHOLDER.sub(number, statement).encode(), names
