"""Statements of a transaction that are sent together: order, rows, COPY, errors and cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from ingest.storage.database.pipeline import Pipeline

_INSERT = "INSERT INTO item VALUES (%(id)s, %(name)s)"
_ALL = ("SELECT id, name FROM item ORDER BY id", ())
_COPY = "COPY item FROM STDIN"


def run(server: Any, test: Callable[[Pipeline], Awaitable[None]]) -> None:
    """Run a test with an empty table that only its connection has."""

    async def connect_and_run() -> None:
        async with await psycopg.AsyncConnection.connect(server.database_url, autocommit=True) as connection:
            await connection.execute("CREATE TEMP TABLE item (id int PRIMARY KEY, name text)")
            await test(Pipeline(connection))

    asyncio.run(connect_and_run())


def test_queued_statements_run_in_order_with_the_next_query(server: Any) -> None:
    """The rows of each query are those after all statements before it."""

    async def check(pipeline: Pipeline) -> None:
        async with pipeline.transaction():
            pipeline.queue(_INSERT, {"name": "a", "id": 1})
            pipeline.queue(_INSERT, {"name": "b", "id": 2})
            rows, count = await pipeline.fetch(_ALL, ("SELECT count(*) + %s FROM item", (10,)))
            await pipeline.copy(_COPY, iter([b"3\tc\n", b"4\td\n"]))
            pipeline.queue("UPDATE item SET name = upper(name)")
        assert rows == [(1, "a"), (2, "b")]
        assert count == [(12,)]
        async with pipeline.transaction():
            (rows,) = await pipeline.fetch(_ALL)
        assert rows == [(1, "A"), (2, "B"), (3, "C"), (4, "D")]

    run(server, check)


def test_an_error_rolls_back_and_the_connection_stays_usable(server: Any) -> None:
    """The same for a statement and for COPY. Statements that were prepared before still work."""

    async def check(pipeline: Pipeline) -> None:
        async with pipeline.transaction():
            pipeline.queue(_INSERT, {"id": 1, "name": "kept"})
        with pytest.raises(psycopg.errors.UniqueViolation):
            async with pipeline.transaction():
                pipeline.queue(_INSERT, {"id": 2, "name": "lost"})
                pipeline.queue(_INSERT, {"id": 1, "name": "duplicate"})
                await pipeline.fetch(_ALL)
        with pytest.raises(psycopg.errors.UniqueViolation):
            async with pipeline.transaction():
                pipeline.queue(_INSERT, {"id": 3, "name": "lost"})
                await pipeline.copy(_COPY, iter([b"4\tlost\n1\tduplicate\n"]))
        with pytest.raises(psycopg.errors.UndefinedTable):
            async with pipeline.transaction():
                await pipeline.copy("COPY no_such_table FROM STDIN", iter([b"1\n"]))
        with pytest.raises(psycopg.errors.UniqueViolation):
            async with pipeline.transaction():
                pipeline.queue(_INSERT, {"id": 1, "name": "fails with the commit"})
        async with pipeline.transaction():
            pipeline.queue(_INSERT, {"id": 5, "name": "new"})
            (rows,) = await pipeline.fetch(_ALL)
        assert rows == [(1, "kept"), (5, "new")]

    run(server, check)


def test_rows_are_read_while_a_large_statement_is_sent(server: Any) -> None:
    """Otherwise Postgres waits until its rows are read, and this process until its statement is."""

    async def check(pipeline: Pipeline) -> None:
        large = "x" * 20_000_000
        async with pipeline.transaction():
            query = ("SELECT repeat('y', 20000000)", ())
            insert = ("INSERT INTO item VALUES (1, %s) RETURNING length(name)", (large,))
            ((text,),), lengths = await asyncio.wait_for(pipeline.fetch(query, insert), 30)
        assert (len(text), lengths) == (20_000_000, [(20_000_000,)])

    run(server, check)


def test_copy_sends_more_than_the_socket_holds(server: Any) -> None:
    """Writes wait until Postgres has read enough."""

    async def check(pipeline: Pipeline) -> None:
        chunks = (f"{number}\t{'x' * 400_000}\n".encode() for number in range(20))
        async with pipeline.transaction():
            await pipeline.copy(_COPY, chunks)
            (rows,) = await pipeline.fetch(("SELECT count(*), sum(length(name)) FROM item", ()))
        assert rows == [(20, 8_000_000)]

    run(server, check)


def test_a_canceled_query_closes_the_connection(server: Any) -> None:
    """Its response would otherwise be read as that of the next statement."""

    async def check(pipeline: Pipeline) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), pipeline.transaction():
                await pipeline.fetch(("SELECT pg_sleep(30)", ()))
        assert pipeline.connection.closed

    run(server, check)
