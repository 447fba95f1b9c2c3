"""Response time of the session list with a million stored spans."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime

import pytest
from bench.viewer.measurements import report
from conftest import ServerFactory
from reader import client_of
from scale.span_generator import fill

pytestmark = pytest.mark.timeout(900)


def test_session_list_with_a_million_spans(start_server: ServerFactory) -> None:
    server = start_server()
    totals = fill(server.database_url, 1_000_000, days=10, today=datetime.now(UTC).date())
    with client_of(server, "operator") as client:
        for path in ("/", "/?state=compacted", "/?q=session-4", "/?fragment=rows"):
            times = []
            for _ in range(40):
                began = time.perf_counter()
                assert client.get(path).status_code == 200
                times.append((time.perf_counter() - began) * 1000)
            times.sort()
            p50, p95 = f"{statistics.median(times):.0f} ms", f"{times[37]:.0f} ms"
            report(f"{path}, {totals.sessions:,} sessions, {totals.spans:,} spans", p50=p50, p95=p95)
