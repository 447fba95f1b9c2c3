"""A process that runs out of file descriptors answers, and resets no connection."""

from __future__ import annotations

import http.client
import json
import threading
import uuid

import psutil
from conftest import ServerFactory
from live_server import Server


def web_process(server: Server) -> psutil.Process:
    (process,) = [
        child
        for child in psutil.Process(server.process.pid).children()
        if "ariadne.runtime.web_process" in " ".join(child.cmdline())
    ]
    return process


def test_more_connections_than_descriptors_are_answered(start_server: ServerFactory) -> None:
    """With 200 or with 503 and Retry-After. Everything works again when there are fewer."""
    server = start_server("descriptors")
    web_process(server).rlimit(psutil.RLIMIT_NOFILE, (128, 128))
    host, _, port = server.url.removeprefix("http://").partition(":")
    count = 150
    all_connected, results, is_full = threading.Barrier(count), [], threading.Event()

    def post() -> None:
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        try:
            connection.connect()
            all_connected.wait(60)
            event = {"type": "span", "trace_id": uuid.uuid4().hex, "span_id": "s", "kind": "tool"}
            connection.request("POST", "/ingest", json.dumps({"batch": [event]}), server.headers)
            response = connection.getresponse()
            response.read()
            results.append((response.status, response.getheader("Retry-After")))
            # Stay connected until the server is full. Otherwise a slow one would accept the next after the first left.
            is_full.set() if response.status == 503 else is_full.wait(30)
        except OSError as error:
            results.append((type(error).__name__, None))
        finally:
            connection.close()

    threads = [threading.Thread(target=post) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == count and set(results) <= {(200, None), (503, "1")}, set(results)
    assert (503, "1") in results
    all_connected, results = threading.Barrier(1), []
    post()
    assert results == [(200, None)]
