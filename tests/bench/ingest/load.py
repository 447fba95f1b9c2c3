"""A cheap load generator, and a signed-in client for pages.

Senders use one thread and one keep-alive connection each, and send bodies that were generated in advance.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

BATCH = 100


def event(trace_id: str, number: int, session_id: str) -> dict[str, Any]:
    """Return a span of about 600 bytes, as an exporter sends it."""
    started = 1_763_265_600 + number * 0.05
    return {
        "type": "span",
        "trace_id": trace_id,
        "span_id": f"{number:016x}",
        "parent_id": f"{number - number % 10:016x}" if number % 10 else None,
        "kind": ("agent", "generation", "tool", "custom", "generation")[number % 5],
        "name": ("agent", "gpt-5", "read_file", "plan", "gpt-5")[number % 5],
        "started_at": started,
        "ended_at": started + 0.04,
        "status": "ok",
        "data": {
            "session_id": session_id,
            "model": "gpt-5",
            "usage": {"input_tokens": 1000 + number % 5000, "output_tokens": number % 700},
            "turn": number // 10,
            "temperature": 0.2,
            "note": f"step {number}: looked at the open files, compared them with the plan, continued with the next",
            "labels": ["nightly", "eu", "agent-7"],
        },
    }


def bodies(count: int, *, sender: int = 0, batch: int = BATCH) -> list[bytes]:
    """Return `count` bodies with `batch` new spans each. A session has ten bodies."""
    result = []
    for index in range(count):
        if index % 10 == 0:
            trace_id, session_id = uuid.uuid4().hex, f"bench-{sender}-{uuid.uuid4().hex[:12]}"
        first = (index % 10) * batch
        result.append(json.dumps({"batch": [event(trace_id, first + n, session_id) for n in range(batch)]}).encode())
    return result


@dataclass
class Run:
    """Result of sending bodies."""

    events: int = 0
    seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    failures: int = 0

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def post(connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    return response.status, response.read()


def send(
    url: str,
    headers: dict[str, str] | list[dict[str, str]],
    work: list[list[bytes]],
    *,
    path: str = "/ingest",
    batch: int = BATCH,
) -> Run:
    """Send each list of bodies from its own thread, all at the same time, with the same headers or its own."""
    run = Run()
    lock = threading.Lock()
    host = urlsplit(url).netloc
    start = threading.Barrier(len(work) + 1)

    def sender(own_bodies: list[bytes], own_headers: dict[str, str]) -> None:
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.connect()
        times, failures = [], 0
        start.wait()
        for body in own_bodies:
            began = time.perf_counter()
            status, _ = post(connection, path, body, own_headers)
            times.append((time.perf_counter() - began) * 1000)
            failures += status != 200
        with lock:
            run.latencies_ms += times
            run.failures += failures
        connection.close()

    each = headers if isinstance(headers, list) else [headers] * len(work)
    threads = [threading.Thread(target=sender, args=pair) for pair in zip(work, each, strict=True)]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    run.seconds = time.perf_counter() - began
    run.events = sum(map(len, work)) * batch
    return run


def post_all(url: str, headers: dict[str, str], bodies: list[bytes], interval_s: float, stop: threading.Event) -> None:
    """Send OTLP bodies at a steady rate until all are sent or `stop` is set."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    began = time.perf_counter()
    for number, body in enumerate(bodies):
        if stop.wait(max(0.0, began + number * interval_s - time.perf_counter())):
            break
        post(connection, "/v1/traces", body, headers)
    connection.close()


@contextmanager
def signed_in(server: Any, person: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, follow_redirects=True, timeout=60) as client:
        client.get("/login/")
        form = {**server.logins[person], "csrfmiddlewaretoken": client.cookies.get("csrftoken", "")}
        client.post("/login/", data=form, headers={"Referer": server.url})
        yield client
