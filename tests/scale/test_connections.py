"""Pages share a small pool of database connections."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
from live_server import Server
from reader import log_in

REQUESTS = 150


def test_many_requests_share_few_connections(server: Server) -> None:
    """Each request runs in its own thread, but threads do not keep their connections."""
    client = log_in(server, "operator", limits=httpx.Limits(max_connections=20))
    with ThreadPoolExecutor(20) as senders:
        answers = list(senders.map(lambda _: client.get("/api/sessions/").status_code, range(REQUESTS)))
    client.close()
    assert answers == [200] * REQUESTS
    with psycopg.connect(server.database_url) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        row = connection.execute(query).fetchone()
    assert row is not None
    assert row[0] < 40
