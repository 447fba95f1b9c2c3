"""Two web processes under load with faults: no acknowledged event is lost or stored twice."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import psycopg
import pytest
from live_server import Server, run_server
from reader import cookie_header
from scale.agent import stored_spans
from scale.load import Agent
from scale.redis_server import Redis
from scale.watcher import Watcher
from wait import wait_until

from ariadne.runtime.postgres import Postgres


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    server = Redis()
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A Postgres server outside the supervisor, so that it can be killed separately, with production durability."""
    server = Postgres(tmp_path_factory.mktemp("own"))
    server.start()
    server.create_database("ariadne")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, redis: Redis, database: Postgres) -> Iterator[Server]:
    """Start `make up PROCESSES=2` with a real Redis."""
    environment = {"PROCESSES": "2", "REDIS_URL": redis.url, "DATABASE_URL": database.dsn()}
    with run_server(tmp_path_factory.mktemp("pair"), **environment) as running:
        yield running


def web_processes(server: Server) -> list[psutil.Process]:
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [child for child in children if "ariadne.runtime.web_process" in " ".join(_command(child))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@contextmanager
def load(
    server: Server, database: Postgres, *, agents: int = 4, pages: int = 3
) -> Iterator[tuple[list[Agent], list[Watcher]]]:
    """Run agents and pages. At the end, every event must be acknowledged, stored once and shown once."""
    run = secrets.token_hex(4)
    cookies = cookie_header(server, "developer")
    watchers = [Watcher(server.url, cookies) for _ in range(pages)]
    for watcher in watchers:
        watcher.start()
    assert all(watcher.is_open.wait(20) for watcher in watchers), watchers[0].faults
    senders = [Agent(server.ingest_url, server.ingest_key, f"{run}-{number}") for number in range(agents)]
    for sender in senders:
        sender.start()
    try:
        yield senders, watchers
    except BaseException:
        for watcher in watchers:
            watcher.finish()
        raise
    finally:
        for sender in senders:
            sender.finish()
    acknowledged = set[tuple[str, str]]().union(*(sender.acknowledged for sender in senders))
    assert not [rejection for sender in senders for rejection in sender.rejections]
    rows = [row for row in stored_spans(database.dsn()) if row[0].startswith(f"trace-{run}-")]
    assert {(trace, span) for trace, span, _ in rows} == acknowledged
    assert len(rows) == len(acknowledged)
    for watcher in watchers:
        assert wait_until(lambda watcher=watcher: acknowledged <= watcher.keys), (  # type: ignore[misc]
            f"{len(acknowledged - watcher.keys)} of {len(acknowledged)} were never shown: {watcher.faults}"
        )
        watcher.finish()
        assert watcher.duplicates == 0
        newest = {(trace, span): seq for trace, span, seq in rows}
        assert all(newest[trace, span] >= seq for trace, span, seq in watcher.shown)


def acknowledged_count(senders: list[Agent]) -> int:
    return sum(len(sender.acknowledged) for sender in senders)


def more(senders: list[Agent], count: int) -> Callable[[], bool]:
    """Return a condition that holds once `count` more events have been acknowledged."""
    before = acknowledged_count(senders)
    return lambda: acknowledged_count(senders) >= before + count


def test_both_processes_ingest_and_show_all_events(pair: Server, database: Postgres) -> None:
    """Pages of one process show the events of the other without gaps, and both processes write."""
    with load(pair, database, agents=12) as (senders, _):
        assert wait_until(more(senders, 2000))

        def have_both_written() -> bool:
            # A keep-alive connection stays with its process, and on a busy machine one process may accept all of them.
            for sender in senders:
                sender.reconnect()
            return writer_count(database) == 2

        assert wait_until(have_both_written)


def writer_count(database: Postgres) -> int:
    with psycopg.connect(database.dsn()) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ariadne-writer'"
        (count,) = connection.execute(query).fetchone() or (0,)
    return int(count)


def test_killed_process_loses_nothing(pair: Server, database: Postgres) -> None:
    """After kill -9 of one process, the other continues, a new one starts, and pages reconnect."""
    with load(pair, database) as (senders, watchers):
        assert wait_until(more(senders, 300))
        victim = web_processes(pair)[0]
        victim.kill()
        assert wait_until(more(senders, 300))
        assert wait_until(
            lambda: len(web_processes(pair)) == 2 and victim.pid not in {p.pid for p in web_processes(pair)}
        )
        assert wait_until(more(senders, 300))
        assert wait_until(lambda: all(watcher.is_open.is_set() for watcher in watchers))


def test_rolling_restart_drops_nothing(pair: Server, database: Postgres) -> None:
    """SIGUSR2 restarts both processes under load without a failed request."""
    before = {process.pid for process in web_processes(pair)}
    with load(pair, database) as (senders, watchers):
        assert wait_until(more(senders, 300))
        pair.process.send_signal(signal.SIGUSR2)
        assert wait_until(lambda: "Restarted." in pair.log)
        assert wait_until(more(senders, 300))
    assert not before & {process.pid for process in web_processes(pair)}
    assert sum(sender.failures for sender in senders) == 0
    assert all(watcher.connects >= 2 for watcher in watchers)


def test_pages_miss_nothing_without_redis(pair: Server, database: Postgres, redis: Redis) -> None:
    """While Redis does not answer or is down, events are accepted and pages catch up by polling. The log says it."""
    lines = len(pair.log.splitlines())
    with load(pair, database) as (senders, watchers):
        assert wait_until(more(senders, 300))
        redis.pause()
        assert wait_until(more(senders, 500))
        redis.kill()
        assert wait_until(more(senders, 500))
        acknowledged = set[tuple[str, str]]().union(*(sender.acknowledged for sender in senders))
        assert all(wait_until(lambda watcher=watcher: acknowledged <= watcher.keys) for watcher in watchers)  # type: ignore[misc]
        redis.start()
        assert wait_until(more(senders, 300))
        assert wait_until(lambda: "channel_layer_works" in pair.log)
    log = "\n".join(pair.log.splitlines()[lines:])
    assert "Traceback" not in log
    assert 1 <= log.count("channel_layer_unavailable") <= 2 * len(web_processes(pair))


def test_postgres_crash_loses_no_acknowledged_event(pair: Server, database: Postgres) -> None:
    """While Postgres restarts, senders get 503 and retry, and pages reconnect."""
    with load(pair, database) as (senders, _):
        assert wait_until(more(senders, 300))
        assert database.process is not None
        # An immediate shutdown without a checkpoint. Postgres recovers from its log.
        database.process.send_signal(signal.SIGQUIT)
        database.process.wait(timeout=20)
        database.start()
        assert wait_until(more(senders, 300))


def test_postgres_that_does_not_answer_loses_nothing(pair: Server, database: Postgres) -> None:
    """While all its processes are paused, senders get 503 and retry. The log has no traceback."""
    lines = len(pair.log.splitlines())
    assert database.process is not None
    postmaster = psutil.Process(database.process.pid)
    with load(pair, database) as (senders, _):
        assert wait_until(more(senders, 300))
        paused = [postmaster, *postmaster.children(recursive=True)]
        for process in paused:
            process.suspend()
        before = sum(sender.failures for sender in senders)
        try:
            assert wait_until(lambda: sum(sender.failures for sender in senders) > before)
        finally:
            for process in paused:
                process.resume()
        assert wait_until(more(senders, 300))
    assert "Traceback" not in "\n".join(pair.log.splitlines()[lines:])
