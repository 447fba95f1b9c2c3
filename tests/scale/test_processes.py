"""Two web processes under load, and everything that can happen to them: nothing acknowledged is lost, nothing twice."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import psycopg
import pytest
from live_server import Server, run_server
from scale.agent import stored
from scale.load import Agent
from scale.redis_server import Redis
from scale.watch import Watcher, sign_in
from wait import wait_until

from ariadne.runtime.postgres import Postgres


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    server = Redis()
    server.start()
    yield server
    server.cut()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A Postgres outside the supervisor, so that it can be killed alone. Durable, as in production."""
    server = Postgres(tmp_path_factory.mktemp("own"))
    server.start()
    server.create_database("ariadne")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, redis: Redis, database: Postgres) -> Iterator[Server]:
    """`make up PROCESSES=2` with a real Redis between them."""
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
    """Agents sending, pages following; at the end all that was sent is acknowledged, stored once and shown once."""
    run = secrets.token_hex(4)
    cookies = sign_in(server.url, server.logins["developer"])
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
    assert not [refusal for sender in senders for refusal in sender.refused]
    rows = [row for row in stored(database.dsn()) if row[0].startswith(f"trace-{run}-")]
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


def sent(senders: list[Agent]) -> int:
    return sum(len(sender.acknowledged) for sender in senders)


def more(senders: list[Agent], count: int) -> Callable[[], bool]:
    """Whether `count` more events were acknowledged since now."""
    before = sent(senders)
    return lambda: sent(senders) >= before + count


def test_both_processes_take_requests_and_show_each_other_s_events(pair: Server, database: Postgres) -> None:
    """Pages of one process see what the other stored, without a gap; every process has work."""
    # A connection that is kept stays with its process: of a dozen, hardly all are taken by one.
    with load(pair, database, agents=12) as (senders, _):
        assert wait_until(more(senders, 2000))
        with psycopg.connect(database.dsn()) as connection:
            writers = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ariadne-writer'"
            ).fetchone()
        assert writers == (2,)


def test_a_killed_process_loses_nothing(pair: Server, database: Postgres) -> None:
    """kill -9 of one under load: the other goes on, a new one comes, pages resume by themselves."""
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


def test_renewing_the_processes_drops_nothing(pair: Server, database: Postgres) -> None:
    """SIGUSR2 replaces both, one by one, under load: not one request is refused or cut off."""
    before = {process.pid for process in web_processes(pair)}
    with load(pair, database) as (senders, watchers):
        assert wait_until(more(senders, 300))
        pair.process.send_signal(signal.SIGUSR2)
        assert wait_until(lambda: "Restarted." in pair.log)
        assert wait_until(more(senders, 300))
    assert not before & {process.pid for process in web_processes(pair)}
    assert sum(sender.failures for sender in senders) == 0
    assert all(watcher.connects >= 2 for watcher in watchers)


def test_without_redis_pages_are_late_but_miss_nothing(pair: Server, database: Postgres, redis: Redis) -> None:
    """Redis goes away for a while: events are taken, pages catch up by polling, and notices come back with it."""
    with load(pair, database) as (senders, watchers):
        assert wait_until(more(senders, 300))
        redis.cut()
        assert wait_until(more(senders, 500))
        known = set[tuple[str, str]]().union(*(sender.acknowledged for sender in senders))
        assert all(wait_until(lambda watcher=watcher: known <= watcher.keys) for watcher in watchers)  # type: ignore[misc]
        redis.start()
        assert wait_until(more(senders, 300))


def test_a_crash_of_postgres_loses_nothing_acknowledged(pair: Server, database: Postgres) -> None:
    """Postgres is stopped in the middle and recovers: senders are told 503 and keep their events, pages resume."""
    with load(pair, database) as (senders, _):
        assert wait_until(more(senders, 300))
        assert database.process is not None
        # An immediate shutdown: no checkpoint, open transactions are cut, recovery from the log follows.
        database.process.send_signal(signal.SIGQUIT)
        database.process.wait(timeout=20)
        database.start()
        assert wait_until(more(senders, 300))
