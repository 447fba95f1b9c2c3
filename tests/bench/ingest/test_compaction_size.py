"""Bytes on disk of the events that the library sends for recorded sessions, with a check after every few messages."""

from __future__ import annotations

import contextlib
import json
import lzma
import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from compact import AriadneExporter, CompactConfig, CompactManager, InsufficientBudget

from .test_otlp import TRANSCRIPTS, _sizes

SESSIONS = int(os.environ.get("ARIADNE_BENCH_SESSIONS", "40"))
CHECK_EVERY = 6
WINDOW_TOKENS = 32_000

pytestmark = pytest.mark.timeout(3600)
_BY_KIND = """
SELECT kind, count(*), avg(pg_column_size(s.*))::int, avg(pg_column_size(data))::int,
  coalesce(avg(pg_column_size(payload)), 0)::int
FROM ingest_span s GROUP BY kind ORDER BY count(*) * avg(pg_column_size(s.*)) DESC
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.live_server import run_server

    with run_server(tmp_path_factory.mktemp("sizes"), ARIADNE_INGEST_KEY_EVENTS_PER_S="0") as running:
        yield running


def recorded_sessions() -> Iterator[list[dict[str, Any]]]:
    for file in sorted(TRANSCRIPTS.glob("*.jsonl.xz")):
        with lzma.open(file, "rt") as lines:
            for line in lines:
                yield json.loads(line)["messages"]


def test_bytes_per_compaction_event(server: Any) -> None:
    """All rows of the table are events of checks and compactions."""
    if not TRANSCRIPTS.is_dir():
        pytest.skip(f"{TRANSCRIPTS} does not exist. Set COMPACT_TRANSCRIPTS.")
    exporter = AriadneExporter(server.ingest_url, server.ingest_key, spool_dir=None)
    config = CompactConfig(model="gpt-5", max_context_tokens=WINDOW_TOKENS, exporter=exporter)
    sent = 0
    for messages in recorded_sessions():
        if sum(len(str(message)) for message in messages) < WINDOW_TOKENS * 6:
            continue
        manager = CompactManager(config)
        for end in range(CHECK_EVERY, min(len(messages), 200), CHECK_EVERY):
            # Some messages do not fit into this window. Their error is an event, too.
            with contextlib.suppress(InsufficientBudget):
                manager.preflight(f"recorded-{sent}", messages[:end])
        assert exporter.flush(timeout_s=60)
        sent += 1
        if sent == SESSIONS:
            break
    exporter.close()
    with psycopg.connect(server.database_url) as connection:
        kinds = connection.execute(_BY_KIND).fetchall()
    events = sum(count for _, count, *_ in kinds)
    sizes = _sizes(server)
    print(
        f"\n{sent} sessions, {events:,} events: {sum(list(sizes.values())[:3]) / events:,.0f} bytes per event on disk"
    )
    for name, size in sizes.items():
        print(f"  {name}: {size / events:,.0f} bytes per event")
    for kind, count, row, data, payload in kinds:
        print(f"  {kind}: {count:,} rows of {row:,} bytes, of which data {data:,} and payload {payload:,}")
