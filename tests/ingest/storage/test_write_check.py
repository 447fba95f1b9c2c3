"""The write check of /readyz."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg import errors

from ingest.storage.database import write_check
from ingest.storage.database.connections import connect
from ingest.storage.database.write_check import WriteCheck


@pytest.mark.django_db(transaction=True)
@pytest.mark.asyncio
async def test_many_requests_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred requests at once, and those of the next second, cost one transaction and leave no rows."""
    check = WriteCheck()
    try:
        assert {result.reason for result in await asyncio.gather(*(check.result() for _ in range(100)))} == {""}
        probe = await connect(application="test")
        find = "SELECT backend_xid, xact_start, state_change FROM pg_stat_activity WHERE application_name = %s"
        before = await (await probe.execute(find, ("ariadne-ready",))).fetchone()
        await check.result()
        assert await (await probe.execute(find, ("ariadne-ready",))).fetchone() == before
        monkeypatch.setattr(write_check, "CACHE_S", 0.0)
        assert (await check.result()).reason == ""
        assert await (await probe.execute(find, ("ariadne-ready",))).fetchone() != before
        await probe.close()
    finally:
        await check.close()


@pytest.mark.req("A-OPS-1")
@pytest.mark.django_db(transaction=True)
@pytest.mark.asyncio
async def test_a_server_that_was_restarted_is_ready(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection of the last check ended with the old server. The first check after that does not fail."""
    monkeypatch.setattr(write_check, "CACHE_S", 0.0)
    check, probe = WriteCheck(), await connect(application="test")
    end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'ariadne-ready'"
    try:
        assert (await check.result()).reason == ""
        await probe.execute(end)
        assert (await check.result()).reason == ""
        assert caplog.records == []
    finally:
        await probe.close()
        await check.close()


@pytest.mark.req("A-OPS-1")
@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.DiskFull("could not extend file"), "disk full"),
        (errors.TooManyConnections("sorry"), "no free connection"),
        (psycopg.OperationalError("refused"), "unavailable"),
        (ValueError("odd"), "ValueError"),
    ],
)
async def test_the_reason_is_named(error: Exception, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """The answer and one line of the log name the reason. Its message stays private."""

    async def fail(**_: Any) -> Any:
        raise error

    check = WriteCheck(open_connection=fail)
    try:
        assert [(await check.result()).reason for _ in range(3)] == [reason] * 3
        (line,) = [record.getMessage() for record in caplog.records]
        assert line.startswith(f"writes_fail reason={reason!r} ") and str(error) not in line
    finally:
        await check.close()


@pytest.mark.req("A-OPS-1")
@pytest.mark.asyncio
async def test_a_server_without_a_free_connection_is_named(postgres: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The error of a refused connection has no SQLSTATE."""
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as admin:
        admin.execute("CREATE ROLE crowded LOGIN CONNECTION LIMIT 0")
        address = postgres.dsn("postgres").replace("//ariadne@", "//crowded@")

        async def open_connection(**_: Any) -> Any:
            return await psycopg.AsyncConnection.connect(address)

        check = WriteCheck(open_connection=open_connection)
        try:
            assert (await check.result()).reason == "no free connection"
            (line,) = [record.getMessage() for record in caplog.records]
            assert "action='raise max_connections of Postgres'" in line
        finally:
            await check.close()
            admin.execute("DROP ROLE crowded")


@pytest.mark.asyncio
async def test_a_server_that_does_not_answer_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check does not wait for it, and neither does closing."""

    async def hang(**_: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(write_check, "_TIMEOUT_S", 0.05)
    check = WriteCheck(open_connection=hang)
    assert (await check.result()).reason == "timeout"
    await check.close()
