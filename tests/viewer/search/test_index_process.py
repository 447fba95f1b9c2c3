"""The search index is filled by a process of its own, which is replaced if it dies and ends with the server."""

from __future__ import annotations

import httpx
import psutil
import psycopg
from conftest import ServerFactory

from tests.live_server import Server
from tests.wait import wait_until


def is_index_process(process: psutil.Process) -> bool:
    try:
        return "viewer.search.index_process" in process.cmdline()
    except psutil.Error:  # it has just ended
        return False


def index_processes(server: Server) -> list[psutil.Process]:
    return list(filter(is_index_process, psutil.Process(server.process.pid).children(recursive=True)))


def is_indexed(server: Server, session_id: str) -> bool:
    query = "SELECT 1 FROM ingest_search s JOIN ingest_session USING (session_key) WHERE session_id = %s"
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        return connection.execute(query, [session_id]).fetchone() is not None


def test_a_killed_index_process_is_replaced_and_ends_with_the_server(start_server: ServerFactory) -> None:
    """Sessions that arrive after the kill are indexed too. Stopping the server leaves no process."""
    server = start_server()

    def send(session_id: str) -> None:
        event = {"event": "compact.trigger", "session_id": session_id, "ts": 1_763_265_600}
        assert httpx.post(server.ingest_url, headers=server.headers, json=event).status_code == 200
        assert wait_until(lambda: is_indexed(server, session_id))

    send("before")
    (process,) = index_processes(server)
    process.kill()
    send("after")
    (process,) = index_processes(server)
    server.stop()
    assert wait_until(lambda: not process.is_running())
