"""Graceful shutdown of a web process."""

from __future__ import annotations

import http.client
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from live_server import ROOT
from wait import wait_until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from ariadne.runtime.web_process import DRAIN_TIMEOUT_S


class Process:
    """A web process with an application on a socket of the test."""

    def __init__(self, listener: socket.socket, application: str = "scale.blocking_app:application") -> None:
        self.port = listener.getsockname()[1]
        ready, ready_write_end = os.pipe()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ariadne.runtime.web_process", application),
                *("--fd", str(listener.fileno()), "--ready-fd", str(ready_write_end)),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
            pass_fds=(listener.fileno(), ready_write_end),
        )
        os.close(ready_write_end)
        assert select.select([ready], [], [], 90)[0]
        assert os.read(ready, 5) == b"ready"
        os.close(ready)

    def get(self, path: str) -> tuple[str, str | None]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.read().decode(), answer.getheader("Connection")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def web(listener: socket.socket) -> Iterator[Process]:
    process = Process(listener)
    yield process
    with suppress(ProcessLookupError):
        process.process.kill()
    process.process.wait()


def test_open_request_is_answered(web: Process) -> None:
    """After SIGTERM, the process answers open requests, closes their connections, and exits."""
    with ThreadPoolExecutor() as pool, socket.create_connection(("127.0.0.1", web.port)) as late:
        waiting = pool.submit(web.get, "/wait")
        assert wait_until(lambda: web.get("/count")[0] == "1")
        with connect(f"ws://127.0.0.1:{web.port}/") as page:
            web.stop()
            with pytest.raises(ConnectionClosed):
                page.recv(timeout=10)
        # The connection was open before the signal, and its request arrives after it.
        late.sendall(b"GET /go HTTP/1.1\r\nHost: x\r\n\r\n")
        assert waiting.result(timeout=20) == ("waited", "close")
    assert web.process.wait(timeout=20) == 0


def test_idle_process_stops_immediately(web: Process) -> None:
    """Idle keep-alive connections do not delay the exit."""
    with closing(http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)) as connection:
        connection.request("GET", "/count")
        connection.getresponse().read()
        web.stop()
        assert web.process.wait(timeout=DRAIN_TIMEOUT_S - 1) == 0


def test_websockets_are_closed_with_service_restart(web: Process) -> None:
    """Websockets are closed with code 1012 and do not delay the exit."""
    with connect(f"ws://127.0.0.1:{web.port}/") as page:
        web.stop()
        with pytest.raises(ConnectionClosed) as closed:
            page.recv(timeout=10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012
    assert web.process.wait(timeout=DRAIN_TIMEOUT_S - 1) == 0


def test_new_process_serves_while_the_old_one_drains(listener: socket.socket, web: Process) -> None:
    """A second process on the same socket answers, so that no connection is refused."""
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(web.get, "/wait")
        assert wait_until(lambda: web.get("/count")[0] == "1")
        web.stop()
        successor = Process(listener)
        try:
            assert wait_until(lambda: successor.get("/count")[0] == "0")
            assert [successor.get("/count")[0] for _ in range(20)] == ["0"] * 20
        finally:
            successor.process.kill()
            successor.process.wait()
            web.process.kill()
        with pytest.raises((http.client.HTTPException, OSError)):
            waiting.result(timeout=20)


def test_a_process_stops_in_the_middle_of_a_job_that_does_not_end(listener: socket.socket) -> None:
    """Its thread does not keep the process from ending, and what the application finishes at the stop is finished."""
    web = Process(listener, "scale.hanging_app:application")
    assert web.get("/")[0] == "running"
    web.stop()
    try:
        assert web.process.wait(timeout=DRAIN_TIMEOUT_S - 1) == 0
    finally:
        web.process.kill()


def test_a_process_that_cannot_start_its_work_exits(listener: socket.socket) -> None:
    """It does not report that it is ready, and its exit code tells the supervisor."""
    command = [sys.executable, "-m", "ariadne.runtime.web_process", "scale.hanging_app:application"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "FAILS_TO_START": "1"}
    number = listener.fileno()
    result = subprocess.run(
        [*command, "--fd", str(number)],
        cwd=ROOT,
        env=environment,
        pass_fds=(number,),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1 and b"cannot start" in result.stderr
