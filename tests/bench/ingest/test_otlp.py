"""OTLP spans of 3 kB with real texts: rate, CPU, bytes on disk, and pages while ingest runs at half of its speed."""

from __future__ import annotations

import json
import lzma
import os
import random
import threading
import time
import uuid
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import psycopg
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from .load import BATCH, Run, post_all, send, signed_in
from .test_ingest import cpu_s, other_cpu_s, postgres_cpu_s, web_process

SENDERS = 4
REQUESTS = int(os.environ.get("ARIADNE_BENCH_REQUESTS", "60"))
SPAN_CHARS = 2_400
TRANSCRIPTS = Path(os.environ.get("COMPACT_TRANSCRIPTS", "../shared/data/transcripts"))

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.live_server import run_server

    with run_server(tmp_path_factory.mktemp("otlp"), ARIADNE_INGEST_KEY_EVENTS_PER_S="0") as running:
        yield running


def headers(server: Any) -> dict[str, str]:
    return {**server.headers, "Content-Type": "application/x-protobuf"}


@lru_cache(maxsize=1)
def _text() -> str:
    """Return the messages of recorded sessions, which compress like those of any agent."""
    texts = []
    for file in sorted(TRANSCRIPTS.glob("*.jsonl.xz"))[:40]:
        with lzma.open(file, "rt") as lines:
            texts += [message.get("content") or "" for line in lines for message in json.loads(line)["messages"]]
    return "\n".join(texts).encode("utf-8", "ignore").decode()


def requests(count: int) -> list[bytes]:
    """Return OTLP requests with a hundred spans each, and ten requests for each session."""
    chance = random.Random(uuid.uuid4().int)
    text = _text()
    result = []
    for index in range(count):
        if index % 10 == 0:
            session_id = f"otlp-{uuid.uuid4().hex[:12]}"
        request = ExportTraceServiceRequest()
        spans = request.resource_spans.add().scope_spans.add().spans
        for number in range(BATCH):
            if number % 10 == 0:
                trace_id, root = uuid.uuid4().bytes, uuid.uuid4().bytes[:8]
            span = spans.add(
                trace_id=trace_id,
                span_id=root if number % 10 == 0 else uuid.uuid4().bytes[:8],
                parent_span_id=b"" if number % 10 == 0 else root,
                name="chat gpt-5",
                start_time_unix_nano=time.time_ns() - 10**9,
                end_time_unix_nano=time.time_ns(),
            )
            start = chance.randrange(len(text) - SPAN_CHARS)
            for key, value in {
                "openinference.span.kind": "LLM",
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "gpt-5",
                "session.id": session_id,
                "input.value": text[start : start + SPAN_CHARS * 3 // 4],
                "output.value": text[start + SPAN_CHARS * 3 // 4 : start + SPAN_CHARS],
            }.items():
                span.attributes.add(key=key).value.string_value = value
            span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 1000 + number
        result.append(request.SerializeToString())
    return result


def test_rate_and_size_of_large_spans(server: Any) -> None:
    """Durable spans per second with four senders, CPU per span, and bytes per span on disk."""
    if not TRANSCRIPTS.is_dir():
        pytest.skip(f"{TRANSCRIPTS} does not exist. Set COMPACT_TRANSCRIPTS.")
    send(server.url, headers(server), [requests(4)], path="/v1/traces")
    work = [requests(REQUESTS) for _ in range(SENDERS)]
    web = web_process(server)
    sent_bytes = sum(len(body) for bodies in work for body in bodies)
    web_s, postgres_s, other_s = cpu_s(web), postgres_cpu_s(server), other_cpu_s(server)
    run = send(server.url, headers(server), work, path="/v1/traces")
    web_us = (cpu_s(web) - web_s) / run.events * 1e6
    postgres_us = (postgres_cpu_s(server) - postgres_s) / run.events * 1e6
    other_share = (other_cpu_s(server) - other_s) / run.seconds / (os.cpu_count() or 1)
    print(
        f"\nOTLP, {sent_bytes / run.events:,.0f} bytes per span, {SENDERS} senders: {run.rate:,.0f} durable spans/s,"
        f" ack p50 {run.percentile(0.5):.0f}, p99 {run.percentile(0.99):.0f} ms,"
        f" web {web_us:.0f} µs and Postgres {postgres_us:.0f} µs of CPU per span,"
        f" {other_share:.0%} of the machine used by other programs"
    )
    for name, size in _sizes(server).items():
        print(f"  {name}: {size / (run.events + 400):,.0f} bytes per span")
    assert run.failures == 0


def test_pages_while_ingest_runs_at_half_speed(server: Any) -> None:
    """Latency of the session list and a session page, while one of them is loaded after the other."""
    if not TRANSCRIPTS.is_dir():
        pytest.skip(f"{TRANSCRIPTS} does not exist. Set COMPACT_TRANSCRIPTS.")
    work = [requests(20) for _ in range(SENDERS)]
    full = send(server.url, headers(server), work, path="/v1/traces")
    interval_s = 2 * SENDERS * BATCH / full.rate
    with psycopg.connect(server.database_url) as connection:
        ((session_id,),) = connection.execute(
            "SELECT session_id FROM ingest_session WHERE session_id LIKE 'otlp-%' ORDER BY last_seq DESC LIMIT 1"
        ).fetchall()
    stop = threading.Event()
    sending = [
        threading.Thread(target=post_all, args=(server.url, headers(server), requests(100), interval_s, stop))
        for _ in range(SENDERS)
    ]
    for thread in sending:
        thread.start()
    times_ms: dict[str, list[float]] = {"/": [], f"/sessions/{session_id}/": []}
    try:
        with signed_in(server, "operator") as person:
            deadline = time.monotonic() + 15
            while time.monotonic() < deadline and any(thread.is_alive() for thread in sending):
                for path, times in times_ms.items():
                    began = time.perf_counter()
                    response = person.get(path, follow_redirects=True)
                    times.append((time.perf_counter() - began) * 1000)
                    assert response.status_code == 200, path
    finally:
        stop.set()
        for thread in sending:
            thread.join()
    for path, times in times_ms.items():
        run = Run(latencies_ms=times)
        print(
            f"{path}: p50 {run.percentile(0.5):.0f}, p95 {run.percentile(0.95):.0f} ms of {len(times)} pages,"
            f" at {full.rate / 2:,.0f} of {full.rate:,.0f} spans/s"
        )


def _sizes(server: Any) -> dict[str, float]:
    """Return the bytes of the span table, its indexes and the search index, without empty partitions."""
    query = """
        SELECT coalesce(sum(pg_relation_size(inhrelid)), 0), coalesce(sum(pg_indexes_size(inhrelid)), 0),
            coalesce(sum(pg_total_relation_size(inhrelid) - pg_relation_size(inhrelid) - pg_indexes_size(inhrelid)), 0)
        FROM pg_inherits WHERE inhparent = %s::regclass AND pg_relation_size(inhrelid) > 0
    """
    with psycopg.connect(server.database_url) as connection:
        heap, indexes, toast = connection.execute(query, ["ingest_span"]).fetchone() or (0, 0, 0)
        search = sum(connection.execute(query, ["ingest_search"]).fetchone() or (0, 0, 0))
    return {"rows": float(heap), "indexes": float(indexes), "TOAST": float(toast), "search index": float(search)}
