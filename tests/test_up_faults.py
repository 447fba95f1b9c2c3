"""`make up` when its environment fails: a terminal that takes no lines, a full disk, a folder that is read-only."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from live_server import ROOT, copy_prepared
from small_disk import SmallDisk, small_disk
from wait import wait_until

from ariadne.runtime.postgres import Postgres, PostgresError
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


def send(data_dir: Path, number: int) -> httpx.Response:
    """Send events that need about 200 kB."""
    credentials = json.loads((data_dir / "credentials.json").read_text())
    session, now = f"disk-{number}", time.time()
    events = [
        {"event": "compact.warning", "session_id": session, "ts": now, "message": os.urandom(500).hex()}
        for _ in range(200)
    ]
    headers = {"Authorization": f"Bearer {credentials['ingest_key']}"}
    return httpx.post(f"{credentials['url']}/ingest", json={"events": events}, headers=headers, timeout=60)


@pytest.fixture
def disk(tmp_path: Path, prepared_data: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", size_mb=160) as disk:
        copy_prepared(prepared_data, disk.folder / "data")
        yield disk


def test_a_full_disk_is_named_once(disk: SmallDisk, tmp_path: Path) -> None:
    """To senders, in the log and by /readyz. Everything works again as soon as there is room."""
    data_dir, log = disk.folder / "data", tmp_path / "up.log"
    with log.open("wb") as output, run_up(data_dir, stdout=output, stderr=output):
        assert wait_until(lambda: is_ready(data_dir))
        assert send(data_dir, 0).status_code == 200
        disk.fill(leave_bytes=1_000_000)
        numbers = itertools.count(1)
        assert wait_until(lambda: send(data_dir, next(numbers)).status_code == 503)
        for _ in range(10):
            answer = send(data_dir, next(numbers))
            assert answer.status_code == 503 and "disk of the database is full" in answer.text
        assert not is_ready(data_dir)
        disk.make_room()
        assert wait_until(lambda: send(data_dir, next(numbers)).status_code == 200 and is_ready(data_dir))
    lines = log.read_text().splitlines()
    assert len([line for line in lines if "writes_fail reason='disk full'" in line]) <= 2  # a commit, and /readyz
    assert any("make room on the disk of Postgres" in line for line in lines)
    assert not [line for line in lines if "database_unreachable" in line or "error ignored" in line]


def test_postgres_that_cannot_start_is_tried_less_often(tmp_path: Path, prepared_data: Path) -> None:
    """The supervisor says once why. Postgres is back when the reason is gone."""
    data_dir, log = tmp_path / "data", tmp_path / "up.log"
    copy_prepared(prepared_data, data_dir)
    configuration = data_dir / "postgres" / "postgresql.conf"
    valid = configuration.read_text()
    with log.open("wb") as output, run_up(data_dir, stdout=output, stderr=output):
        assert wait_until(lambda: is_ready(data_dir))
        configuration.write_text(f"{valid}\nno_such_setting = 1\n")
        killed = kill_postgres(data_dir)
        assert wait_until(lambda: "Postgres does not run" in log.read_text())
        starts = (data_dir / "postgres.log").read_text().count("no_such_setting")
        assert wait_until(lambda: (data_dir / "postgres.log").read_text().count("no_such_setting") > starts)
        assert send(data_dir, 1).status_code == 503
        configuration.write_text(valid)
        assert wait_until(lambda: is_ready(data_dir) and send(data_dir, 2).status_code == 200)
        assert postgres_pid(data_dir) != killed
        assert wait_until(lambda: "Postgres is running again" in log.read_text())
    text = log.read_text()
    assert text.count("Postgres has stopped. Restarting") == text.count("Postgres does not run") == 1
    assert "configuration file" in text and "contains errors" in text


@pytest.mark.req("A-FLT-1")
def test_a_fault_is_on_the_status_page(tmp_path: Path, prepared_data: Path) -> None:
    """A killed web process, and what the supervisor says about it. The file is readable by its owner only."""
    data_dir = tmp_path / "data"
    copy_prepared(prepared_data, data_dir)
    with run_up(data_dir, stdout=subprocess.DEVNULL) as process:
        assert wait_until(lambda: is_ready(data_dir))
        (web,) = [c for c in psutil.Process(process.pid).children() if "ariadne.runtime.web_process" in c.cmdline()]
        web.kill()
        assert wait_until(lambda: (data_dir / "notices.log").exists() and is_ready(data_dir))
        credentials = json.loads((data_dir / "credentials.json").read_text())
        with httpx.Client(base_url=credentials["url"], follow_redirects=True, timeout=60) as client:
            client.get("/login/")
            login = credentials["logins"]["admin"]
            form = {**login, "csrfmiddlewaretoken": client.cookies["csrftoken"], "next": "/status/"}
            page = client.post("/login/", data=form)
        assert page.url.path == "/status/" and "Everything works" in page.text
        assert "supervisor A web process exited with" in page.text
        assert (data_dir / "notices.log").stat().st_mode & 0o077 == 0


def start_and_wait(data_dir: Path) -> tuple[int, str]:
    """Run `make up` until it ends, and return its exit code and output."""
    with run_up(data_dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        output, _ = process.communicate(timeout=60)
        return process.returncode, output.decode()


@pytest.mark.parametrize("has_data", [False, True])
def test_a_read_only_folder_is_one_message(disk: SmallDisk, has_data: bool) -> None:
    """It names the folder and the reason, without a traceback."""
    data_dir = disk.folder / ("data" if has_data else "new")
    data_dir.mkdir(exist_ok=True)
    disk.make_read_only()
    code, output = start_and_wait(data_dir)
    assert code == 1
    assert f"could not start: cannot write to DATA_DIR={data_dir}: Read-only file system" in output
    assert "Traceback" not in output


def test_a_start_on_a_full_disk_is_one_message(disk: SmallDisk) -> None:
    """It says how much is free."""
    disk.fill()
    code, output = start_and_wait(disk.folder / "data")
    assert code == 1
    assert "No space left on device" in output and "MB free" in output
    assert "Traceback" not in output


def test_of_two_starts_on_a_new_folder_one_is_rejected(tmp_path: Path) -> None:
    """The other one creates the database. The output has nothing of initdb."""
    data_dir = tmp_path / "new"
    processes = []
    with ExitStack() as stack:
        for _ in range(2):
            process = stack.enter_context(run_up(data_dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            processes.append(process)
        assert wait_until(lambda: any(process.poll() is not None for process in processes))
        (loser,) = [process for process in processes if process.poll() is not None]
        assert loser.stdout is not None
        output = loser.stdout.read().decode()
        assert loser.returncode == 1
        assert f"Another Ariadne server is already running on {data_dir}" in output
        assert "initdb" not in output and "Traceback" not in output
        assert wait_until(lambda: is_ready(data_dir))


def test_a_user_without_a_name_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under any id."""
    monkeypatch.setattr(os, "geteuid", lambda: 987_654)
    server = Postgres(tmp_path)
    with pytest.raises(PostgresError, match=r"the user 987654 has no name.*DATABASE_URL"):
        server.start()
    server.stop()
