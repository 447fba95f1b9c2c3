"""Operation of a Citus cluster while agents of two tenants send: `CITUS_URL=… pytest tests/scale -k citus`.

Each step checks that every acknowledged span is stored once, in the cell of its tenant, and was shown on the tail.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from live_server import Server, run_server
from reader import client_of, cookie_header
from scale.agent import span
from scale.citus import SETTINGS, URL, Citus, CitusNode, Tenant, add_tenant, manage, rows_of_tables
from scale.load import Agent
from scale.watcher import Watcher
from wait import wait_until

from ingest.cells import cells_of

pytestmark = [
    pytest.mark.skipif(not URL, reason="CITUS_URL is not set, so the tests on a Citus cluster are skipped"),
    pytest.mark.timeout(900),
]
DATABASE = "ariadne_operation"
DEFAULT_PROJECT = 1


@dataclass
class Installation:
    """A server, its cluster and two tenants."""

    server: Server
    cluster: Citus
    tenants: list[Tenant]

    @property
    def url(self) -> str:
        return self.cluster.coordinator.url(DATABASE)

    def node_of(self, tenant: Tenant) -> CitusNode:
        return self.cluster.node_of(DATABASE, cells_of(tenant.project)[0])

    def execute(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        return self.cluster.coordinator.execute(DATABASE, statement, *arguments)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A single server with some spans. Its database has Citus and one worker, and is not distributed."""
    cluster = Citus(URL)
    url = cluster.create_database(DATABASE, workers=1)
    data_dir = tmp_path_factory.mktemp("operation")
    manage(url, data_dir, "setup")
    with run_server(data_dir, DATABASE_URL=url, **SETTINGS) as server:
        default = Tenant(DEFAULT_PROJECT, "default", server.ingest_key)
        yield Installation(server, cluster, [default, add_tenant(url)])
    cluster.drop_database(DATABASE)


@contextmanager
def load(installation: Installation, *, shows: bool = True) -> Iterator[list[Agent]]:
    """Run agents of both tenants, and a page that follows the first one. Check what they sent at the end."""
    run, server = secrets.token_hex(4), installation.server
    watcher = Watcher(server.url, cookie_header(server, "developer"))
    watcher.start()
    assert watcher.is_open.wait(20), watcher.faults
    agents = [
        Agent(server.ingest_url, tenant.key, f"{run}-{tenant.project}-{number}", pause_s=0.03)
        for tenant in installation.tenants
        for number in range(2)
    ]
    for agent in agents:
        agent.start()
    try:
        assert wait_until(lambda: all(len(agent.acknowledged) > 30 for agent in agents), timeout_s=60)
        yield agents
        counts = [len(agent.acknowledged) for agent in agents]
        assert wait_until(
            lambda: all(len(agent.acknowledged) > count for agent, count in zip(agents, counts, strict=True)),
            timeout_s=60,
        )
    finally:
        for agent in agents:
            agent.finish(timeout_s=90)
        watcher_keys = watcher.keys
    assert [agent.rejections for agent in agents if agent.rejections] == []
    for tenant in installation.tenants:
        own = [agent for agent in agents if f"-{tenant.project}-" in agent.name]
        acknowledged = set[tuple[str, str]]().union(*(agent.acknowledged for agent in own))
        rows = installation.execute(
            "SELECT trace_id, span_id FROM ingest_span WHERE cell = ANY(%s) AND trace_id LIKE %s",
            cells_of(tenant.project),
            f"trace-{run}-%",
        )
        assert len(rows) == len(set(rows))
        assert set(rows) == acknowledged
        if tenant.project == DEFAULT_PROJECT and shows:
            assert wait_until(lambda: acknowledged <= watcher.keys, timeout_s=60), len(acknowledged - watcher_keys)  # noqa: B023
    watcher.finish()
    assert watcher.duplicates == 0


def command(installation: Installation, *arguments: str) -> str:
    return manage(installation.url, installation.server.data_dir, *arguments)


def test_a_filled_server_is_distributed_while_agents_send(installation: Installation) -> None:
    """No row changes, and agents wait. The second run does nothing, and setup distributes the table of an upgrade."""
    with load(installation):
        pass
    before = rows_of_tables(installation.url)
    with load(installation):
        assert "ingest_span: distributed by cell" in command(installation, "distribute", "--shards", "8")
    after = rows_of_tables(installation.url)
    lost = {name for name, rows in before.items() if name == "ingest_span" and set(rows) - set(after[name])}
    assert lost == set()
    assert "already" in command(installation, "distribute")

    installation.execute("CREATE TABLE viewer_next_version (cell bigint, id bigint, PRIMARY KEY (cell, id))")
    with load(installation):
        command(installation, "setup")
    placed = installation.execute(
        "SELECT count(DISTINCT colocationid) FROM pg_dist_partition WHERE logicalrelid::text"
        " IN ('viewer_next_version', 'ingest_span')"
    )
    assert placed == [(1,)]


def test_cells_move_to_a_new_worker_while_agents_send(installation: Installation) -> None:
    """A worker is added, the shards are rebalanced, and a tenant gets a node of its own."""
    distribute(installation)
    worker = installation.cluster.workers[1]
    address = f"{worker.host}:{worker.port}"
    with load(installation):
        command(installation, "distribute", "--worker", address)
        installation.execute("SELECT citus_rebalance_start()")
        installation.execute("SELECT citus_rebalance_wait()")
        other = next(
            node for node in installation.cluster.workers if node != installation.node_of(theirs(installation))
        )
        output = command(
            installation, "cells", "--isolate", theirs(installation).slug, "--node", f"{other.host}:{other.port}"
        )
    assert installation.node_of(theirs(installation)) == other
    assert f"{theirs(installation).slug}" in output
    separate(installation)
    assert installation.node_of(installation.tenants[0]) != installation.node_of(theirs(installation))


def theirs(installation: Installation) -> Tenant:
    return installation.tenants[1]


def distribute(installation: Installation) -> None:
    """Distribute the database, in case this is the first test that needs it."""
    command(installation, "distribute", "--shards", "8")


def separate(installation: Installation) -> None:
    """Put the tenants on different nodes."""
    distribute(installation)
    ours = installation.node_of(installation.tenants[0])
    other = next(node for node in installation.cluster.workers if node.group != ours.group)
    command(installation, "distribute", "--worker", f"{other.host}:{other.port}")
    address = f"{other.host}:{other.port}"
    command(installation, "cells", "--isolate", theirs(installation).slug, "--node", address)


def post(installation: Installation, tenant: Tenant, name: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {tenant.key}"}
    return httpx.post(installation.server.ingest_url, json={"batch": [span(name, name)]}, headers=headers, timeout=30)


def unavailable_cells(installation: Installation) -> list[int]:
    cells: list[int] = httpx.get(f"{installation.server.url}/readyz", timeout=30).json()["unavailable_cells"]
    return cells


def test_a_worker_that_dies_stops_only_its_cells(installation: Installation) -> None:
    """Its senders get 503 with Retry-After, /readyz names its cells, and others send, sign in and read."""
    separate(installation)
    with load(installation):
        worker = installation.node_of(theirs(installation))
        worker.kill()
        try:
            assert wait_until(lambda: post(installation, theirs(installation), "late").status_code == 503)
            refused = post(installation, theirs(installation), "late")
            assert int(refused.headers["retry-after"]) > 0
            assert wait_until(
                lambda: set(cells_of(theirs(installation).project)) <= set(unavailable_cells(installation))
            )
            assert not set(cells_of(DEFAULT_PROJECT)) & set(unavailable_cells(installation))
            assert post(installation, installation.tenants[0], "in-time").status_code == 200
            with client_of(installation.server, "developer") as client:
                assert client.get("/").status_code == 200
        finally:
            worker.start()
        assert wait_until(lambda: unavailable_cells(installation) == [], timeout_s=60)


def test_a_coordinator_that_dies_stops_no_sender(installation: Installation) -> None:
    """Agents with known keys go on, because their process asks the nodes of their cells."""
    separate(installation)
    with load(installation) as agents:
        installation.cluster.coordinator.kill()
        try:
            counts = [len(agent.acknowledged) for agent in agents]
            assert wait_until(
                lambda: all(len(agent.acknowledged) > n + 20 for agent, n in zip(agents, counts, strict=True)),
                timeout_s=20,
            )
        finally:
            installation.cluster.coordinator.start()
