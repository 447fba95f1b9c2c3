"""The list of sessions over a million stored spans: the whole answer of the server, as a browser asks for it."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime

import pytest
from bench.viewer.measurements import say
from conftest import ServerFactory
from reader import client_of
from scale.span_generator import fill

pytestmark = pytest.mark.timeout(900)


def test_the_list_of_a_million_spans(start_server: ServerFactory) -> None:
    server = start_server()
    filled = fill(server.database_url, 1_000_000, days=10, today=datetime.now(UTC).date())
    with client_of(server, "operator") as client:
        for path in ("/", "/?state=compacted", "/?q=session-4", "/?fragment=rows"):
            times = []
            for _ in range(40):
                began = time.perf_counter()
                assert client.get(path).status_code == 200
                times.append((time.perf_counter() - began) * 1000)
            times.sort()
            p50, p95 = f"{statistics.median(times):.0f} ms", f"{times[37]:.0f} ms"
            say(f"{path}, {filled.sessions:,} sessions, {filled.spans:,} spans", p50=p50, p95=p95)
