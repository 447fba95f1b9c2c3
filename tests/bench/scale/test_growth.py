"""How the answers change as the table grows: 1, 5 and 20 million spans, made inside the database.

    make bench                                                                      one million, with all the others
    SCALE_SPANS=1000000,5000000,20000000 pytest tests/bench/scale -q -s             these alone; 32 GB of free disk

Figures and the curve are in docs/SCALING.md: for each question the time inside Postgres, and in brackets the time with
Python and whatever else the machine was doing. What must hold at any size is asserted: index scans only, and nothing
that takes Postgres longer than a fixed limit.
"""

from __future__ import annotations

import os
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
from scale.page_queries import page_queries
from scale.plans import database, full_scans, postgres_ms
from scale.span_generator import FIRST_PROJECT, GeneratedSpans, fill

from ariadne.runtime.postgres import Postgres

SIZES = [int(size) for size in os.environ.get("SCALE_SPANS", "1000000").split(",")]
DAYS = 10
# 800 on disk when done; a day is sorted and indexed beside it, and the log holds four gigabytes.
BYTES_A_SPAN, BYTES_BESIDE = 1_200, 8_000_000_000
# A page may take 100 ms before a person notices; Postgres may have half of it, at any size.
LIMIT_MS = 50.0
SENDERS, BODIES = 8, 40
OPTIONS = {"shared_buffers": "1GB", "maintenance_work_mem": "512MB", "max_wal_size": "4GB", "max_connections": "100"}


def _tell(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


class Table:
    """What was measured, printed as it comes and once more at the end."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, str]] = {}

    def note(self, name: str, spans: int, value: str) -> None:
        self.rows.setdefault(name, {})[spans] = value
        print(f"{spans:>12,}  {name:<34} {value}", flush=True)

    def show(self) -> None:
        print("\n| | " + " | ".join(f"{size:,} spans" for size in SIZES) + " |")
        print("|---|" + "---|" * len(SIZES))
        for name, values in self.rows.items():
            print(f"| {name} | " + " | ".join(values.get(size, "") for size in SIZES) + " |")


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    measured = Table()
    yield measured
    measured.show()


@pytest.fixture(params=SIZES, ids=lambda size: f"{size:,}")
def grown(
    request: Any, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any, table: Table
) -> Iterator[tuple[Postgres, GeneratedSpans, int]]:
    """A durable Postgres of its own with so many spans."""
    size: int = request.param
    folder = tmp_path_factory.mktemp("grown")
    needed = size * BYTES_A_SPAN + BYTES_BESIDE
    if shutil.disk_usage(folder).free < needed:
        pytest.skip(f"{size:,} spans need {needed / 1e9:.0f} GB of free disk while they are made")
    server = Postgres(folder, options=OPTIONS)
    server.start()
    server.create_database("ariadne")
    try:
        with database("ariadne", str(server.socket_dir)), django_db_blocker.unblock():
            call_command("migrate", verbosity=0)
            began = time.monotonic()
            filled = fill(server.dsn(), size, days=DAYS, today=datetime.now(UTC).date(), report=_tell)
            table.note("filling", size, f"{time.monotonic() - began:.0f} s")
            yield server, filled, size
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(3600)
def test_growth(grown: tuple[Postgres, GeneratedSpans, int], table: Table, tmp_path: Path) -> None:
    """Screens, ingest and retention on a table of this size."""
    server, filled, size = grown
    _note_sizes(server, filled, size, table)
    slow = {}
    for name, ask in page_queries(FIRST_PROJECT, filled.last_seq).items():
        assert full_scans(ask) == [], name
        warm, in_postgres = _timed(ask), postgres_ms(ask)
        table.note(name, size, f"{in_postgres:.1f} ms ({warm:.1f} ms)")
        if in_postgres > LIMIT_MS:
            slow[name] = in_postgres
    _note_ingest(server, size, table, tmp_path)
    _note_retention(size, table)
    assert slow == {}


def _timed(ask: Callable[[], object]) -> float:
    """The median of what a person waits for, Python included."""
    times = []
    for _ in range(15):
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _note_sizes(server: Postgres, filled: GeneratedSpans, size: int, table: Table) -> None:
    with psycopg.connect(server.dsn()) as connection:
        (heap, indexes) = connection.execute(
            "SELECT sum(pg_table_size(inhrelid)), sum(pg_indexes_size(inhrelid)) FROM pg_inherits"
            " WHERE inhparent = 'ingest_span'::regclass"
        ).fetchone() or (0, 0)
        (sessions,) = connection.execute("SELECT pg_total_relation_size('ingest_session')").fetchone() or (0,)
    table.note("bytes a span: rows, indexes", size, f"{heap / filled.spans:.0f}, {indexes / filled.spans:.0f}")
    table.note("sessions, bytes each", size, f"{filled.sessions:,}, {sessions / filled.sessions:.0f}")


def _note_ingest(server: Postgres, size: int, table: Table, tmp_path: Path) -> None:
    # The same load as the ingest benchmark's.
    from bench.ingest.load import bodies, send, signed_in

    with run_server(tmp_path / "server", DATABASE_URL=server.dsn()) as running:
        run = send(running.url, running.headers, [bodies(BODIES, sender=number) for number in range(SENDERS)])
        assert run.failures == 0
        table.note(
            "ingest: events/s, ack p50, p99",
            size,
            f"{run.rate:,.0f}, {run.percentile(0.5):.0f}, {run.percentile(0.99):.0f} ms",
        )
        with signed_in(running, "operator") as person:
            table.note("session list, as a page", size, f"{_timed(lambda: person.get('/')):.0f} ms")


def _note_retention(size: int, table: Table) -> None:
    from ingest.models import Project
    from ingest.storage import retention

    project = Project.objects.get(pk=FIRST_PROJECT)
    project.retention_days = DAYS - 1
    project.save()
    began = time.monotonic()
    report = retention.run()
    table.note(
        "retention: one day dropped",
        size,
        f"{(time.monotonic() - began) * 1000:.0f} ms, {report.session_count:,} sessions",
    )
    assert len(report.dropped_days) == 1
