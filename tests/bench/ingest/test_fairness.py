"""One project floods the server from eight connections while another sends single events.

pytest tests/bench/ingest/test_fairness.py -q -s
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
import uuid
from collections import Counter
from urllib.parse import urlsplit

import psycopg
from live_server import Server

from ingest import credentials

from .load import bodies

SECONDS = float(os.environ.get("FAIRNESS_S", "15"))
SENDERS = 8
GOAL = 5.0


def create_other_project(server: Server) -> str:
    """Create a second project and return its ingest key."""
    secret = credentials.generate("ari_")
    with psycopg.connect(server.database_url, autocommit=True) as database:
        row = database.execute(
            "INSERT INTO ingest_project (slug, name, created_at, legal_hold) "
            "VALUES (%s, 'Other', now(), false) RETURNING id",
            [f"other-{uuid.uuid4().hex[:8]}"],
        ).fetchone()
        assert row is not None
        database.execute(
            "INSERT INTO ingest_ingestkey (project_id, label, digest, hint, created_at) "
            "VALUES (%s, 'bench', %s, %s, now())",
            [row[0], secret.digest, secret.hint],
        )
    return secret.text


def measure_single_events(address: str, key: str, seconds: float) -> list[float]:
    """Send one event after the other for some time. Return the sorted latencies in milliseconds."""
    connection = http.client.HTTPConnection(address, timeout=60)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    latencies: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        event = {"type": "span", "trace_id": "single", "span_id": uuid.uuid4().hex, "started_at": time.time()}
        began = time.perf_counter()
        connection.request("POST", "/ingest", json.dumps(event).encode(), headers)
        response = connection.getresponse()
        response.read()
        assert response.status == 200
        latencies.append((time.perf_counter() - began) * 1000)
        time.sleep(0.02)
    return sorted(latencies)


def test_a_flood_of_one_project_hardly_delays_another(server: Server) -> None:
    address = urlsplit(server.url).netloc
    key = create_other_project(server)
    measure_single_events(address, key, 2)
    idle = measure_single_events(address, key, SECONDS)
    stop = threading.Event()
    statuses: Counter[int] = Counter()

    def flood(number: int) -> None:
        connection = http.client.HTTPConnection(address, timeout=60)
        headers = {**server.headers, "Content-Type": "application/json"}
        batches = bodies(60, sender=number)
        while not stop.is_set():
            connection.request("POST", "/ingest", batches[sum(statuses.values()) % len(batches)], headers)
            response = connection.getresponse()
            response.read()
            statuses[response.status] += 1

    threads = [threading.Thread(target=flood, args=(number,), daemon=True) for number in range(SENDERS)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    loaded = measure_single_events(address, key, SECONDS)
    stop.set()
    for thread in threads:
        thread.join(30)
    (idle_p50, idle_p99), (p50, p99) = (
        (values[len(values) // 2], values[int(len(values) * 0.99)]) for values in (idle, loaded)
    )
    print(f"\nidle p50 {idle_p50:.1f}, p99 {idle_p99:.1f} ms; during the flood p50 {p50:.1f}, p99 {p99:.1f} ms")
    print(f"p99 is {p99 / idle_p99:.1f} times as high (goal: {GOAL:.0f}). The flood got {dict(statuses)}.")
    assert p99 <= GOAL * idle_p99
