"""Throughput, latency, size and memory of the write path.

    make bench                                  # a few minutes
    ARIADNE_BENCH_ROWS=5000000 make bench       # growth up to five million spans

Server, Postgres and load generator share the cores of one machine. Throughput is therefore compared with raw COPY of
the same rows into the same table, measured in the same minute.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import statistics
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import date
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest

from .load import BATCH, Run, bodies, event, post, send, signed_in

ROWS = int(os.environ.get("ARIADNE_BENCH_ROWS", "200000"))
GROUP = 1_000
COPY_ROWS = 20_000
# A day without sessions. Its partition is dropped afterwards, so no dead rows remain.
COPY_DAY = date(2001, 1, 1)

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.live_server import run_server

    with run_server(tmp_path_factory.mktemp("bench"), ARIADNE_INGEST_KEY_EVENTS_PER_S="0") as running:
        send(running.url, headers(running), [bodies(10)])
        yield running


def headers(server: Any) -> dict[str, str]:
    return {**server.headers, "Content-Type": "application/json"}


def print_line(line: str = "") -> None:
    print(line, flush=True)


def web_process(server: Any) -> psutil.Process:
    children = psutil.Process(server.process.pid).children(recursive=True)
    return max(
        (
            child
            for child in children
            if any(word in " ".join(child.cmdline()) for word in ("ariadne.runtime.web_process", "daphne"))
        ),
        key=lambda child: child.memory_info().rss,
    )


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def postgres_cpu_s(server: Any) -> float:
    """Return the CPU time of all current processes of the server's Postgres."""
    total = 0.0
    for child in psutil.Process(server.process.pid).children(recursive=True):
        try:
            total += cpu_s(child) if child.name().startswith("postgres") else 0.0
        except psutil.NoSuchProcess:
            continue
    return total


def other_cpu_s(server: Any) -> float:
    """Return the CPU time of everything on the machine except the server and this process."""
    times = psutil.cpu_times()
    busy_s = times.user + times.nice + times.system + times.irq + times.softirq
    own = [psutil.Process(), psutil.Process(server.process.pid)]
    for process in [*own, *own[1].children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            busy_s -= cpu_s(process)
    return busy_s


def packed_groups(count: int) -> list[bytes]:
    """Return groups of rows in the format of the writer."""
    import django

    django.setup()
    from ingest.http.decode_jobs import decode_events
    from ingest.models import session_key
    from ingest.storage.database import copy_rows

    groups = []
    for group in range(count // GROUP):
        session_id = f"copy-{uuid.uuid4().hex[:12]}"
        body = json.dumps([event(uuid.uuid4().hex, number, session_id) for number in range(GROUP)]).encode()
        spans = decode_events(body, "json", GROUP).records
        where = {"session_key": session_key(1, session_id), "day": COPY_DAY, "cell": 1024, "seq": group * GROUP}
        groups.append(b"".join((copy_rows.HEADER, *copy_rows.pack_rows(spans, **where), copy_rows.TRAILER)))  # type: ignore[arg-type]
    return groups


def raw_copy(server: Any, groups: list[bytes]) -> tuple[float, float]:
    """Run binary COPY alone, with a commit for each thousand rows, into the server's table.

    Return spans per second, and CPU microseconds of Postgres per span.
    """
    from ingest.storage.database import partitions
    from ingest.storage.database.copy_rows import COLUMNS

    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute(partitions.create_statement(COPY_DAY).encode())
        used, began = postgres_cpu_s(server), time.perf_counter()
        for group in groups:
            with connection.cursor().copy(f"COPY ingest_span ({COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(group)
        duration_s, used = time.perf_counter() - began, postgres_cpu_s(server) - used
        connection.execute(f"DROP TABLE {partitions.partition_name(COPY_DAY)}".encode())
    count = len(groups) * GROUP
    return count / duration_s, used / count * 1e6


def test_throughput_compared_with_raw_copy(server: Any) -> None:
    """Durable spans per second and latency, with 1, 4 and 16 senders of 100-span batches.

    `web µs` is the CPU time of the web process per span. The highest possible rate is 1,000,000 divided by it, or
    that of COPY if lower. `others` is the share of the machine that other programs used. Rates are comparable only if
    it is small.
    """
    print_line(f"\nload {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print_line(" senders   spans/s  of COPY  p50 ms  p99 ms  web µs  pg µs  others   raw COPY")
    web = web_process(server)
    for senders in (1, 4, 16):
        work = [bodies(max(320 // senders, 40), sender=number) for number in range(senders)]
        before = raw_copy(server, packed_groups(COPY_ROWS))
        web_s, postgres_s, other_s = cpu_s(web), postgres_cpu_s(server), other_cpu_s(server)
        run = send(server.url, headers(server), work)
        other_share = (other_cpu_s(server) - other_s) / run.seconds / (os.cpu_count() or 1)
        web_us = (cpu_s(web) - web_s) / run.events * 1e6
        postgres_us = (postgres_cpu_s(server) - postgres_s) / run.events * 1e6
        after = raw_copy(server, packed_groups(COPY_ROWS))
        limit, limit_us = statistics.mean([before[0], after[0]]), statistics.mean([before[1], after[1]])
        print_line(
            f"{senders:>8} {run.rate:>9,.0f} {run.rate / limit:>8.0%} {run.percentile(0.5):>7.1f}"
            f" {run.percentile(0.99):>7.1f} {web_us:>7.1f} {postgres_us:>6.1f} {other_share:>7.0%}"
            f"   {limit:,.0f}/s, {limit_us:.1f} µs"
        )
        assert run.failures == 0
    with psycopg.connect(server.database_url) as connection:
        (stored,) = connection.execute("SELECT count(*) FROM ingest_span").fetchone() or (0,)
        (counted,) = connection.execute("SELECT sum(span_count) FROM ingest_session").fetchone() or (0,)
    assert stored == counted


def test_post_to_readable(server: Any) -> None:
    """Time from sending a request until another connection can read its span, at 1,000 spans per second."""
    stop = threading.Event()
    background = threading.Thread(target=_send_steadily, args=(server, stop))
    background.start()
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
    readable_ms, ack_ms, commit_ms = [], [], []
    try:
        with psycopg.connect(server.database_url, autocommit=True) as reader:
            reader.execute("CREATE TABLE bench_commit (n integer)")
            for number in range(200):
                trace_id = uuid.uuid4().hex
                body = json.dumps(event(trace_id, number, trace_id)).encode()
                began = time.perf_counter()
                seen = threading.Thread(target=_wait_until_readable, args=(reader, trace_id, began, readable_ms))
                seen.start()
                post(connection, "/ingest", body, headers(server))
                ack_ms.append((time.perf_counter() - began) * 1000)
                seen.join()
                began = time.perf_counter()
                reader.execute("INSERT INTO bench_commit VALUES (1)")
                commit_ms.append((time.perf_counter() - began) * 1000)
            reader.execute("DROP TABLE bench_commit")
    finally:
        stop.set()
        background.join()
        connection.close()
    report("post → readable under 1,000 spans/s", readable_ms)
    report("post → acknowledged, same load", ack_ms)
    report("commit of one row by itself, same load", commit_ms)


def test_post_to_socket(server: Any) -> None:
    """Time from sending a request until its event arrives on the live tail, at 1,000 spans per second."""
    from websockets.sync.client import connect

    posted: dict[str, float] = {}
    arrived_ms: list[float] = []
    stop = threading.Event()
    background = threading.Thread(target=_send_steadily, args=(server, stop))
    url = server.url.replace("http", "ws") + "/ws/tail/?q=probe-"
    signed_in = {"Cookie": _cookie(server, "developer")}
    with connect(url, additional_headers=signed_in, origin=server.url, max_size=None) as socket:  # type: ignore[arg-type]
        json.loads(socket.recv(timeout=30))
        background.start()
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        try:
            for number in range(150):
                name = f"probe-{uuid.uuid4().hex}"
                body = json.dumps({**event(uuid.uuid4().hex, number, "probes"), "name": name}).encode()
                posted[name] = time.perf_counter()
                post(connection, "/ingest", body, headers(server))
                while name in posted:
                    events = json.loads(socket.recv(timeout=10)).get("events", [])
                    if any(tail_event["name"] == name for tail_event in events):
                        arrived_ms.append((time.perf_counter() - posted.pop(name)) * 1000)
        finally:
            stop.set()
            background.join()
            connection.close()
    report("post → websocket under 1,000 spans/s", arrived_ms)


def _cookie(server: Any, person: str) -> str:
    with signed_in(server, person) as http_client:
        return "; ".join(f"{name}={value}" for name, value in http_client.cookies.items())


def _wait_until_readable(
    reader: psycopg.Connection[Any], trace_id: str, began: float, readable_ms: list[float]
) -> None:
    query = "SELECT 1 FROM ingest_session WHERE session_id = %s AND last_seq > %s"
    (last,) = reader.execute("SELECT max(last_seq) - 4_000_000 FROM ingest_session").fetchone() or (0,)
    while reader.execute(query, (trace_id, last)).fetchone() is None:
        time.sleep(0.001)
    readable_ms.append((time.perf_counter() - began) * 1000)


def _send_steadily(server: Any, stop: threading.Event) -> None:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
    work = bodies(600, batch=20)
    began = time.perf_counter()
    for number, body in enumerate(work):
        if stop.is_set():
            break
        time.sleep(max(0.0, began + number * 0.02 - time.perf_counter()))
        post(connection, "/ingest", body, headers(server))
    connection.close()


def report(title: str, times_ms: list[float]) -> None:
    run = Run(latencies_ms=times_ms)
    print_line(f"{title}: p50 {run.percentile(0.5):.1f} ms, p99 {run.percentile(0.99):.1f} ms")


def test_pages_under_load(server: Any) -> None:
    """Latency of the list page, idle and while 16 senders send at full speed."""
    report("list page, idle", _pages_ms(server, 40))
    work = [bodies(100, sender=number) for number in range(16)]
    sending = threading.Thread(target=send, args=(server.url, headers(server), work))
    sending.start()
    times_ms = []
    while sending.is_alive():
        times_ms += _pages_ms(server, 5)
    report(f"list page, 16 senders ({len(times_ms)} pages)", times_ms)


def test_growth_memory_and_size(server: Any) -> None:
    """Latency, memory and bytes per span, before and after many more spans."""
    web = web_process(server)
    before = _measure_latencies(server)
    print_line(f"\n{'spans':>10} {'ack p50':>8} {'ack p99':>8} {'list p50':>9} {'web RSS':>8} {'bytes/span':>11}")
    _print_row(server, web, before)
    sent = 0
    step = max(ROWS // 5, 20_000)
    resident = []
    while sent < ROWS:
        work = [bodies(step // BATCH // 4, sender=number) for number in range(4)]
        run = send(server.url, headers(server), work)
        assert run.failures == 0
        sent += run.events
        resident.append(web.memory_info().rss / 2**20)
        after = _measure_latencies(server)
        _print_row(server, web, after)
    print_line(
        f"ack p50 {after[0] / before[0]:.2f} ×, list {after[2] / before[2]:.2f} ×,"
        f" RSS {resident[0]:.0f} → {resident[-1]:.0f} MB"
    )
    assert resident[-1] < resident[0] * 1.25 + 20, "memory grows with the number of stored spans"


def _measure_latencies(server: Any) -> tuple[float, float, float]:
    """Return p50 and p99 of a request with 100 spans by one sender, and the latency of the list page."""
    run = send(server.url, headers(server), [bodies(60)])
    pages = _list_page_ms(server)
    return run.percentile(0.5), run.percentile(0.99), pages


def _list_page_ms(server: Any) -> float:
    return statistics.median(_pages_ms(server, 12))


def _pages_ms(server: Any, count: int) -> list[float]:
    times = []
    with signed_in(server, "operator") as person:
        for _ in range(count):
            began = time.perf_counter()
            assert person.get("/").status_code == 200
            times.append((time.perf_counter() - began) * 1000)
    return times


def _print_row(server: Any, web: psutil.Process, latencies: tuple[float, float, float]) -> None:
    with psycopg.connect(server.database_url) as connection:
        (spans,) = connection.execute("SELECT sum(span_count) FROM ingest_session").fetchone() or (0,)
        (size,) = connection.execute(
            "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'ingest_span'::regclass"
        ).fetchone() or (0,)
    print_line(
        f"{int(spans):>10,} {latencies[0]:>8.1f} {latencies[1]:>8.1f} {latencies[2]:>9.1f}"
        f" {web.memory_info().rss / 2**20:>8.0f} {float(size) / float(spans):>11.0f}"
    )
