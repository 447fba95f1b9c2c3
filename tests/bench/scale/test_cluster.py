"""The write path and the pages on a Citus cluster, beside plain Postgres of the same version, in one run.

    CITUS_URL=postgresql://…@coordinator/database PLAIN_URL=postgresql://…@host/database \\
        pytest tests/bench/scale/test_cluster.py -q -s

All servers are on this machine, so CPU is the measure and rates are ratios. Each round sends the same spans to both,
one after the other. The results are in docs/SCALING.md.
"""

from __future__ import annotations

import json
import os
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from bench.ingest.load import Run, event, send
from live_server import Server, run_server
from reader import client_of
from scale.citus import SETTINGS, URL, Citus, Tenant, add_tenant, django_on, manage, recreate_database

PLAIN_URL = os.environ.get("PLAIN_URL", "")
DATABASE = "ariadne_bench"
SENDERS = int(os.environ.get("CLUSTER_SENDERS", "4"))
ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "3"))
BODIES = int(os.environ.get("CLUSTER_BODIES", "40"))
BATCH = 100
PROJECTS = 8
PAGE_REQUESTS = 15
PAGES = ("/", "/sessions/{session}/", "/api/search/?q=step", "/trends/", "/api/sessions/{session}/spans/")

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not (URL and PLAIN_URL), reason="CITUS_URL and PLAIN_URL are not set"),
]


@dataclass
class System:
    """A server, the postmasters of its database, and its tenants."""

    name: str
    server: Server
    url: str
    postmasters: list[psutil.Process]
    tenants: list[Tenant]
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def cpu_s(self) -> float:
        """Return the CPU time of all processes of its database so far, including those that ended."""
        total = 0.0
        for postmaster in self.postmasters:
            times = postmaster.cpu_times()
            total += times.children_user + times.children_system
            for child in postmaster.children():
                try:
                    spent = child.cpu_times()
                    total += spent.user + spent.system
                except psutil.NoSuchProcess:
                    continue
        return total

    def measure(self, case: str, work: list[list[bytes]], keys: list[str]) -> None:
        before = self.cpu_s()
        run = send_with_keys(self.server, work, keys)
        assert run.failures == 0
        # Statements that follow a commit, such as those of the search index, are part of its cost.
        self.cpu_us.setdefault(case, []).append((self.cpu_s() - before) / run.events * 1e6)
        self.runs.setdefault(case, []).append(run)


def postmaster(data: Path) -> psutil.Process:
    return psutil.Process(int((data / "postmaster.pid").read_text().split()[0]))


def send_with_keys(server: Server, work: list[list[bytes]], keys: list[str]) -> Run:
    headers = [{"Authorization": f"Bearer {key}", "Content-Type": "application/json"} for key in keys]
    return send(server.url, headers, work, batch=BATCH)


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[System]]:
    """Plain Postgres and the cluster, each with a server and the same number of projects."""
    cluster = Citus(URL)
    plain_url, plain_data = recreate_database(PLAIN_URL, DATABASE)
    cluster_url = cluster.create_database(DATABASE)
    with ExitStack() as stack:
        result = []
        for name, url, folders in (
            ("plain", plain_url, [plain_data]),
            ("cluster", cluster_url, [node.data for node in cluster.nodes]),
        ):
            data_dir = tmp_path_factory.mktemp(name)
            manage(url, data_dir, "setup")
            if name == "cluster":
                manage(url, data_dir, "distribute", "--shards", "32")
            limits = {"ARIADNE_INGEST_KEY_EVENTS_PER_S": "0", "ARIADNE_INGEST_PROJECT_EVENTS_PER_S": "0"}
            server = stack.enter_context(run_server(data_dir, DATABASE_URL=url, **SETTINGS, **limits))
            tenants = [add_tenant(url) for _ in range(PROJECTS)]
            result.append(System(name, server, url, [postmaster(folder) for folder in folders], tenants))
        yield result


def bodies(count: int, sessions: int) -> list[bytes]:
    """Return requests of a hundred new spans each, in this many sessions."""
    result = []
    for _ in range(count):
        ids = [(uuid.uuid4().hex, f"bench-{uuid.uuid4().hex[:12]}") for _ in range(sessions)]
        spans = [event(*ids[number % sessions][:1], number, ids[number % sessions][1]) for number in range(BATCH)]
        result.append(json.dumps({"batch": spans}).encode())
    return result


def show(systems: list[System], case: str) -> tuple[float, float, float]:
    """Print the figures of a case, and return the ratios of CPU per span, p50 and rate."""
    figures = []
    for system in systems:
        runs = system.runs[case]
        cpu_us = statistics.median(system.cpu_us[case])
        p50_ms = statistics.median(run.percentile(0.5) for run in runs)
        rate = statistics.median(run.rate for run in runs)
        figures.append((cpu_us, p50_ms, rate))
        print(f"{case:28} {system.name:8} {cpu_us:7.1f} µs/span  p50 {p50_ms:7.1f} ms  {rate:8,.0f}/s", flush=True)
    ratios = tuple(second / first for first, second in zip(*figures, strict=True))
    print(f"{case:28} ratio    {ratios[0]:7.2f}          p50 {ratios[1]:7.2f}     {ratios[2]:8.2f}", flush=True)
    return ratios  # type: ignore[return-value]


def test_cpu_latency_and_rate_of_writes(systems: list[System]) -> None:
    """Postgres takes at most twice the CPU per span of plain Postgres, and senders wait at most three times as long."""
    failures = []
    for sessions in (1, 10, 50):
        case = f"{sessions} sessions per request"
        for number in range(ROUNDS + 1):
            work = [bodies(BODIES, sessions) for _ in range(SENDERS)]
            # Alternate the order, because the first one pays for a cold cache.
            for system in systems if number % 2 else reversed(systems):
                system.measure(case if number else "warm-up", work, [system.server.ingest_key] * SENDERS)
        cpu, p50, rate = show(systems, case)
        failures += [
            f"{case}: {name}"
            for name, is_met in (("cpu", cpu <= 2), ("p50", p50 <= 3), ("rate", rate >= 0.4))
            if not is_met
        ]
    assert failures == []


def test_cpu_is_flat_with_the_number_of_cells(systems: list[System]) -> None:
    _, cluster = systems
    figures = {}
    for count in (1, 2, 4, 8):
        case = f"{count} cells"
        for _ in range(ROUNDS):
            work = [bodies(BODIES, 10) for _ in range(8)]
            for system in systems:
                keys = [system.tenants[number % count].key for number in range(8)]
                system.measure(case, work, keys)
        show(systems, case)
        figures[count] = statistics.median(cluster.cpu_us[case])
    assert max(figures.values()) <= 1.5 * min(figures.values())


def test_pages(systems: list[System], django_db_blocker: Any) -> None:
    """Times of requests, one after the other, and of their queries."""
    times: dict[str, list[float]] = {}
    for system in systems:
        send_with_keys(system.server, [bodies(10, 10)], [system.server.ingest_key])
        with psycopg.connect(system.url) as connection:
            ((session,),) = connection.execute(
                "SELECT session_id FROM ingest_session WHERE span_count > 5 ORDER BY last_seq DESC LIMIT 1"
            ).fetchall()
        with client_of(system.server, "developer") as client:
            for page in PAGES:
                durations = []
                for _ in range(PAGE_REQUESTS):
                    began = time.perf_counter()
                    answer = client.get(page.format(session=session))
                    durations.append((time.perf_counter() - began) * 1000)
                    assert answer.status_code == 200, (page, answer.status_code)
                times.setdefault(f"GET {page}", []).append(statistics.median(durations[2:]))
        for name, duration_ms in query_times(system, session, django_db_blocker).items():
            times.setdefault(name, []).append(duration_ms)
    for name, (plain_ms, cluster_ms) in times.items():
        print(f"{name:44} plain {plain_ms:7.2f} ms  cluster {cluster_ms:7.2f} ms  ratio {cluster_ms / plain_ms:5.2f}")


def query_times(system: System, session_id: str, blocker: Any) -> dict[str, float]:
    """Return the median times of the queries of pages, as Django sees them."""
    with django_on(system.url, blocker):
        from ingest.models import Session
        from viewer.live import queries as live_queries
        from viewer.search.queries import search
        from viewer.sessions import queries, session_list
        from viewer.visibility.public_parts import Visibility

        session = next(iter(Session.objects.filter(session_id=session_id)))
        content = {session.project_id: Visibility.CONTENT}
        cases: dict[str, Callable[[], object]] = {
            "session page, tree": lambda: queries.tree_json(session),
            "session page, one span": lambda: queries.span(session, "0" * 16, with_payload=True),
            "session list": lambda: session_list.sessions_page(content, session_list.SessionFilter()),
            "overview": lambda: session_list.session_stats([session.project_id]),
            "search": lambda: search(content, "step"),
            "tail": lambda: live_queries.sessions_after(session.project_id, session.last_seq - 1_000),
        }
        return {name: median_ms(query) for name, query in cases.items()}


def median_ms(query: Callable[[], object]) -> float:
    durations = []
    for _ in range(30):
        began = time.perf_counter()
        query()
        durations.append((time.perf_counter() - began) * 1000)
    return statistics.median(durations[5:])
