"""A process writes each cell on the node that holds it, and a node that is down stops only its own cells.

The metadata of a cluster is imitated: a real server under two addresses, and one that does not exist. The tests with a
real cluster are in tests/scale/test_citus.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from conftest import ServerFactory
from live_server import Server
from wait import wait_until

from ingest.cells import AUDIT_LOG, cells_of

_METADATA = """
CREATE TABLE IF NOT EXISTS ingest_cell (cell bigint PRIMARY KEY);
CREATE TABLE pg_dist_partition (logicalrelid regclass);
CREATE TABLE pg_dist_node (groupid integer, nodename text, nodeport integer, noderole text);
CREATE TABLE pg_dist_placement (shardid bigint, groupid integer);
-- One shard for each cell.
CREATE FUNCTION get_shard_id_for_distribution_column(regclass, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT $2';
INSERT INTO pg_dist_partition VALUES ('ingest_cell');
"""
_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ariadne-writer'"


@pytest.fixture
def database(start_server: ServerFactory) -> Iterator[tuple[Server, psycopg.Connection[Any]]]:
    """A server whose database has the metadata of a cluster, and a connection to it."""
    server = start_server()
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute(_METADATA)
        yield server, connection


def add_project(connection: psycopg.Connection[Any], key: str) -> int:
    ((project,),) = connection.execute(
        "INSERT INTO ingest_project (slug, name, created_at, legal_hold)"
        " VALUES ('other', 'Other', now(), false) RETURNING id"
    ).fetchall()
    connection.execute(
        "INSERT INTO ingest_ingestkey (project_id, label, hint, created_at, digest) VALUES (%s, 't', 'h', now(), %s)",
        [project, hashlib.sha256(key.encode()).hexdigest()],
    )
    return project


def place(connection: psycopg.Connection[Any], cell: int, host: Path | str) -> None:
    """Put a cell on the node at this address, in a group of its own."""
    connection.execute("DELETE FROM pg_dist_placement WHERE shardid = %s", [cell])
    connection.execute("DELETE FROM pg_dist_node WHERE groupid = %s", [cell])
    connection.execute("INSERT INTO pg_dist_placement VALUES (%s, %s)", [cell, cell])
    connection.execute("INSERT INTO pg_dist_node VALUES (%s, %s, 5432, 'primary')", [cell, str(host)])


def send(server: Server, key: str, span_id: str) -> httpx.Response:
    event = {"type": "span", "trace_id": "t", "span_id": span_id, "kind": "tool", "name": "n", "started_at": 1.0}
    return httpx.post(
        server.ingest_url, json={"batch": [event]}, headers={"Authorization": f"Bearer {key}"}, timeout=30
    )


def test_a_node_that_is_down_stops_only_its_own_cells(
    database: tuple[Server, psycopg.Connection[Any]], tmp_path: Path
) -> None:
    """Its senders get 503 with Retry-After, /readyz names its cells, and after a move they work again."""
    server, connection = database
    other_key = "ari_other"
    ((project,),) = connection.execute("SELECT id FROM ingest_project").fetchall()
    (cell,), (other_cell,) = cells_of(project), cells_of(add_project(connection, other_key))
    ((address,),) = connection.execute("SELECT current_setting('unix_socket_directories')").fetchall()
    for placed in (AUDIT_LOG, cell):
        place(connection, placed, address)
    place(connection, other_cell, tmp_path / "nothing-here")

    # The process looks for a cluster every few seconds.
    assert wait_until(lambda: send(server, other_key, "before").status_code == 503)
    refused = send(server, other_key, "lost")
    assert refused.headers["retry-after"]
    assert send(server, server.ingest_key, "kept").status_code == 200
    readiness = httpx.get(f"{server.url}/readyz", timeout=30)
    assert (readiness.status_code, readiness.json()["unavailable_cells"]) == (200, [other_cell])
    # Nothing is stored by another way.
    stored = connection.execute("SELECT span_id FROM ingest_span WHERE span_id <> 'before'").fetchall()
    assert stored == [("kept",)]

    place(connection, other_cell, address)
    assert wait_until(lambda: send(server, other_key, "moved").status_code == 200)
    assert wait_until(lambda: httpx.get(f"{server.url}/readyz").json()["unavailable_cells"] == [])
    place(connection, cell, tmp_path / "nothing-here")
    place(connection, AUDIT_LOG, tmp_path / "nothing-here")
    place(connection, other_cell, tmp_path / "nothing-here")
    assert wait_until(lambda: httpx.get(f"{server.url}/readyz", timeout=30).status_code == 503)
