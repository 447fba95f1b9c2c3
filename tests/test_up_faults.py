"""`make up` when its environment fails: a terminal that takes no lines, a full disk, a folder that is read-only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from live_server import ROOT, copy_prepared
from wait import wait_until

from tests import live_server


@contextmanager
def run_up(data_dir: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run the supervisor on `data_dir` with the options of `Popen`."""
    environment = {**live_server._environment(), "PORT": "0", "DEMO": "0", "DATA_DIR": str(data_dir)}
    environment |= {"DJANGO_SETTINGS_MODULE": "tests.server_settings"}
    command = [sys.executable, "-m", "ariadne.runtime.up"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, **options) as process:
        try:
            yield process
        finally:
            process.terminate()


def is_ready(data_dir: Path) -> bool:
    try:
        url = json.loads((data_dir / "credentials.json").read_text())["url"]
        return bool(urllib.request.urlopen(f"{url}/readyz", timeout=20).status == 200)
    except (OSError, ValueError):
        return False


def kill_postgres(data_dir: Path) -> int:
    """Kill Postgres, and return its pid."""
    pid = postgres_pid(data_dir)
    os.kill(pid, signal.SIGKILL)
    return pid


def postgres_pid(data_dir: Path) -> int:
    try:
        return int((data_dir / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return 0


@pytest.mark.parametrize("terminal", ["closed pipe", "full disk"])
def test_a_terminal_that_takes_no_lines_does_not_stop_the_server(
    tmp_path: Path, prepared_data: Path, terminal: str
) -> None:
    """As with `make up | head -n 3`, and with a log file on a full disk. Postgres and web processes are replaced."""
    copy_prepared(prepared_data, tmp_path)
    reader, writer = os.pipe()
    stdout = writer if terminal == "closed pipe" else os.open("/dev/full", os.O_WRONLY)
    errors = tmp_path / "errors.log"
    with errors.open("wb") as stderr, run_up(tmp_path, stdout=stdout, stderr=stderr) as process:
        os.close(writer)
        if terminal == "closed pipe":
            assert os.read(reader, 100)
        os.close(reader)
        assert wait_until(lambda: is_ready(tmp_path))
        killed = kill_postgres(tmp_path)
        assert wait_until(lambda: postgres_pid(tmp_path) not in {0, killed} and is_ready(tmp_path))
        assert process.poll() is None
        process.terminate()
        assert process.wait(60) == 0
    assert "Traceback" not in errors.read_text()
