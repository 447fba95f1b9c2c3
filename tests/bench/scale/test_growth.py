"""Query times as the table grows to 1, 5 and 20 million spans, which are generated inside the database.

    make bench                                                                      one million, with all benchmarks
    SCALE_SPANS=1000000,5000000,20000000 pytest tests/bench/scale -q -s             only these, needs 32 GB of disk
    SCALE_DIR=/tmp/scale pytest tests/bench/scale -q -s -k requests                 keep the databases for the next run

Results are in docs/SCALING.md: for each query the time inside Postgres, and in parentheses the time including Python.
The tests fail if a query does not use an index, takes Postgres longer than a fixed limit at any size, or if the home
page, search or trends take longer than the limit of a request.
"""

from __future__ import annotations

import os
import pickle
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from live_server import run_server
from retention_runs import clocks_at, mark
from scale.page_queries import page_queries
from scale.plans import database, full_scans, postgres_ms
from scale.span_generator import FIRST_PROJECT, GeneratedSpans, fill

from ariadne.runtime.postgres import Postgres

SIZES = [int(size) for size in os.environ.get("SCALE_SPANS", "1000000").split(",")]
# 24,000 sessions of 200 spans at 5 million. A smaller table has fewer days.
DAYS, SPANS_PER_DAY = 30, 20_000
# 800 bytes on disk in the end. Sorting and indexing a day needs more, and the WAL has up to four gigabytes.
BYTES_PER_SPAN, EXTRA_BYTES = 1_200, 8_000_000_000
# People notice pages that take longer than 100 ms. Half of that is for Postgres.
LIMIT_MS = 50.0
REQUEST_LIMIT_MS = 300.0
P95_REQUESTS = 40
REQUESTS = ("/", "/?range=30d", "/?sort=-facts", "/trends/?range=30d", "/trends/", "/api/search/?q=session-1")
SENDERS, BODIES = 8, 40
SMALL_LIST = 2_000
OPTIONS = {"shared_buffers": "1GB", "maintenance_work_mem": "512MB", "max_wal_size": "4GB", "max_connections": "100"}


def _days(size: int) -> int:
    return max(2, min(DAYS, size // SPANS_PER_DAY))


def _print_progress(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


class Table:
    """Measurements, printed immediately and again as a table at the end."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, str]] = {}

    def add(self, name: str, spans: int, value: str) -> None:
        self.rows.setdefault(name, {})[spans] = value
        print(f"{spans:>12,}  {name:<34} {value}", flush=True)

    def show(self) -> None:
        print("\n| | " + " | ".join(f"{size:,} spans" for size in SIZES) + " |")
        print("|---|" + "---|" * len(SIZES))
        for name, values in self.rows.items():
            print(f"| {name} | " + " | ".join(values.get(size, "") for size in SIZES) + " |")


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    measurements = Table()
    yield measurements
    measurements.show()


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size:,}")
def database_of_size(
    request: Any, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any, table: Table
) -> Iterator[tuple[Postgres, GeneratedSpans, int]]:
    """Start a durable Postgres with the given number of spans."""
    size: int = request.param
    kept = os.environ.get("SCALE_DIR")
    folder = Path(kept) / str(size) if kept else tmp_path_factory.mktemp("growth")
    is_filled = (folder / "totals.pickle").exists()
    needed = 0 if is_filled else size * BYTES_PER_SPAN + EXTRA_BYTES
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(folder).free < needed:
        pytest.skip(f"{size:,} spans need {needed / 1e9:.0f} GB of free disk while they are generated")
    server = Postgres(folder, options=OPTIONS)
    server.start()
    try:
        with database("ariadne", str(server.socket_dir)), django_db_blocker.unblock():
            filled = _read_totals(folder) if is_filled else _fill(server, folder, size, table)
            yield server, filled, size
    finally:
        server.stop()
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _fill(server: Postgres, folder: Path, size: int, table: Table) -> GeneratedSpans:
    server.create_database("ariadne")
    call_command("migrate", verbosity=0)
    began = time.monotonic()
    filled = fill(server.dsn(), size, days=_days(size), today=datetime.now(UTC).date(), report=_print_progress)
    table.add("filling", size, f"{time.monotonic() - began:.0f} s")
    (folder / "totals.pickle").write_bytes(pickle.dumps(filled))
    return filled


def _read_totals(folder: Path) -> GeneratedSpans:
    filled = pickle.loads((folder / "totals.pickle").read_bytes())
    assert isinstance(filled, GeneratedSpans)
    return filled


@pytest.mark.timeout(3600)
def test_requests(database_of_size: tuple[Postgres, GeneratedSpans, int], table: Table) -> None:
    """Home, search and trends over HTTP, with the CPU time of the web process for each request."""
    from bench.ingest.load import signed_in
    from bench.ingest.test_ingest import cpu_s, web_process

    server, _, size = database_of_size
    slow = {}
    with (
        run_server(server.data_dir / "server", DATABASE_URL=server.dsn()) as running,
        signed_in(running, "operator") as person,
    ):
        web = web_process(running)
        for path in REQUESTS:
            answer = person.get(path)
            assert answer.status_code == 200
            assert "session-" in answer.text or path.startswith("/trends"), "not signed in"
            before = cpu_s(web)
            p95 = _p95_ms(lambda path=path: person.get(path))
            cpu_ms = (cpu_s(web) - before) / P95_REQUESTS * 1000
            table.add(f"{path}: p95, CPU", size, f"{p95:.0f} ms, {cpu_ms:.0f} ms")
            if p95 > REQUEST_LIMIT_MS:
                slow[path] = p95
    assert slow == {}


@pytest.mark.timeout(3600)
def test_growth(database_of_size: tuple[Postgres, GeneratedSpans, int], table: Table, tmp_path: Path) -> None:
    """Page queries, ingest and retention on a table of this size."""
    server, filled, size = database_of_size
    _measure_sizes(server, filled, size, table)
    slow = {}
    for name, query in page_queries(FIRST_PROJECT, filled.last_seq).items():
        # The whole list of a small table is read faster than its index.
        if filled.sessions > SMALL_LIST:
            assert full_scans(query) == [], name
        warm, in_postgres = _median_ms(query), postgres_ms(query)
        table.add(name, size, f"{in_postgres:.1f} ms ({warm:.1f} ms)")
        if in_postgres > LIMIT_MS:
            slow[name] = in_postgres
    _measure_ingest(server, size, table, tmp_path)
    _measure_retention(size, table)
    assert slow == {}


def _median_ms(query: Callable[[], object]) -> float:
    """Return the median time of a query, including Python."""
    times = []
    for _ in range(15):
        began = time.perf_counter()
        query()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _p95_ms(query: Callable[[], object]) -> float:
    """Return the 95th percentile of the time of a request."""
    times = []
    for _ in range(P95_REQUESTS):
        began = time.perf_counter()
        query()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.quantiles(times, n=20)[-1]


def _measure_sizes(server: Postgres, filled: GeneratedSpans, size: int, table: Table) -> None:
    with psycopg.connect(server.dsn()) as connection:
        (heap, indexes) = connection.execute(
            "SELECT sum(pg_table_size(inhrelid)), sum(pg_indexes_size(inhrelid)) FROM pg_inherits"
            " WHERE inhparent = 'ingest_span'::regclass"
        ).fetchone() or (0, 0)
        (words,) = connection.execute(
            "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'ingest_search'::regclass"
        ).fetchone() or (0,)
        (sessions,) = connection.execute("SELECT pg_total_relation_size('ingest_session')").fetchone() or (0,)
    table.add("bytes per span: rows, indexes", size, f"{heap / filled.spans:.0f}, {indexes / filled.spans:.0f}")
    table.add("search index, bytes per span", size, f"{words / filled.spans:.0f}")
    table.add("sessions, bytes each", size, f"{filled.sessions:,}, {sessions / filled.sessions:.0f}")


def _measure_ingest(server: Postgres, size: int, table: Table, tmp_path: Path) -> None:
    # The load of the ingest benchmark.
    from bench.ingest.load import bodies, send

    with run_server(tmp_path / "server", DATABASE_URL=server.dsn()) as running:
        run = send(running.url, running.headers, [bodies(BODIES, sender=number) for number in range(SENDERS)])
        assert run.failures == 0
        table.add(
            "ingest: events/s, ack p50, p99",
            size,
            f"{run.rate:,.0f}, {run.percentile(0.5):.0f}, {run.percentile(0.99):.0f} ms",
        )


def _measure_retention(size: int, table: Table) -> None:
    from ingest.models import Project
    from ingest.storage import retention

    project = Project.objects.get(pk=FIRST_PROJECT)
    project.retention_days = _days(size) - 1
    project.save()
    deletes_at = mark(datetime.now(UTC))
    began = time.monotonic()
    report = retention.run(clocks=clocks_at(deletes_at))
    table.add(
        "retention: one day dropped",
        size,
        f"{(time.monotonic() - began) * 1000:.0f} ms, {report.session_count:,} sessions",
    )
    assert len(report.dropped_days) == 1
