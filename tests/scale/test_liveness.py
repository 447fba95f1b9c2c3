"""A web process whose event loop is blocked is replaced, with one line that says where it was."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from live_server import ROOT

from ariadne.runtime import supervisor
from ariadne.runtime.supervisor import WebProcesses


class _Replaced(Exception):
    """Ends `watch`."""


@pytest.mark.parametrize("how", ["blocked", "paused"])
def test_a_blocked_web_process_is_replaced(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, how: str
) -> None:
    """The request that blocks the loop fails. Later requests are answered by the new process."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'tests'}:{os.environ.get('PYTHONPATH', '')}")
    lines: list[str] = []

    def request(path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=60)
        connection.request("GET", path)
        return connection.getresponse().read()

    def block() -> None:
        if how == "paused":
            os.kill(web._running[0].child.pid, signal.SIGSTOP)
            return
        with suppress(OSError, http.client.HTTPException):
            request("/block")

    def stop_when_replaced() -> None:
        if any("Starting a new one" in line for line in lines):
            raise _Replaced

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        web = WebProcesses(
            listener,
            1,
            application="scale.blocking_app:application",
            liveness_timeout_s=2,
            stacks_file=tmp_path / "stacks.txt",
            log_line=lines.append,
        )
        with web:
            assert request("/count") == b"0"
            thread = threading.Thread(target=block)
            thread.start()
            with pytest.raises(_Replaced):
                web.watch(on_tick=stop_when_replaced)
            thread.join()
            assert request("/count") == b"0"
    assert re.search(r"did not answer for \d+ seconds", lines[0])
    assert "exited with -9" in lines[1]
    assert "Thread" not in capfd.readouterr().err
    if how == "paused":
        assert "probably paused" in lines[0]
    else:
        assert "It was in block_the_event_loop (blocking_app.py:" in lines[0]
        assert "in block_the_event_loop" in (tmp_path / "stacks.txt").read_text()


def test_a_stalled_supervisor_does_not_blame_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a frozen container continues, the supervisor may run before its web processes do."""
    clock = [1_000.0]
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: clock[0])
    web = WebProcesses(socket.socket(), 1, liveness_timeout_s=2)

    class Silent:
        alive_at = 1_000.0
        is_killed = False
        child = type("Child", (), {"pid": 1, "poll": lambda _self: None})()

        def read_beats(self, now: float) -> None:
            """Report nothing."""

        def dump_and_kill(self) -> str:
            self.is_killed = True
            return ""

    process = Silent()
    web._running.append(process)  # type: ignore[arg-type]
    clock[0] += 60
    web._kill_unresponsive()
    assert not process.is_killed
    for _ in range(4):
        clock[0] += 1
        web._kill_unresponsive()
    assert process.is_killed
