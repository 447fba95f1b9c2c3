"""`make up` as a person meets it: what it prints, what it keeps, and that it leaves nothing running."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest
from conftest import ServerFactory
from serving import ROOT, Server
from waiting import wait_until

NOWHERE = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}


def family(server: Server) -> list[psutil.Process]:
    """The supervisor and everything under it."""
    parent = psutil.Process(server.process.pid)
    return [parent, *parent.children(recursive=True)]


def run_up(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ariadne.runtime.up"],
        cwd=ROOT,
        env={**os.environ, "DEMO": "0", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_prints_and_writes_how_to_get_in(server: Server) -> None:
    """The address, four logins and the key are on the screen and in credentials.json, which only the owner may read."""
    file = server.data_dir / "credentials.json"
    content = json.loads(file.read_text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert set(content) == {"url", "ingest_key", "logins"}
    assert set(content["logins"]) == {"operator", "developer", "auditor", "admin"}
    for login in content["logins"].values():
        assert f"{login['username']} / {login['password']}" in server.log
    assert content["ingest_key"] in server.log
    assert urllib.request.urlopen(f"{content['url']}/healthz", timeout=5).status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_leaves_no_process_behind(start_server: ServerFactory, number: int) -> None:
    """Ctrl-C, kill and even kill -9 end Postgres and the web process too."""
    server = start_server(DEMO="1")
    processes = family(server)
    assert any("postgres" in process.name() for process in processes)
    server.stop(number)
    assert wait_until(lambda: not any(process.is_running() for process in processes)), [
        process.cmdline() for process in processes if process.is_running()
    ]


def test_a_second_start_keeps_data_and_logins(start_server: ServerFactory) -> None:
    """What was stored and what people wrote down still holds, in a directory with a space and after a kill -9."""
    first = start_server("with a space")
    body = json.dumps(
        {"event": "compact.warning", "session_id": "kept", "ts": time.time(), "message": "hello"}
    ).encode()
    request = urllib.request.Request(
        first.ingest_url, data=body, headers={**first.headers, "Content-Type": "application/json"}
    )
    assert json.load(urllib.request.urlopen(request, timeout=10))["count"] == 1
    processes = family(first)
    first.stop(signal.SIGKILL)
    assert wait_until(lambda: not any(process.is_running() for process in processes))

    second = start_server("with a space")
    assert (second.ingest_key, second.logins) == (first.ingest_key, first.logins)
    import psycopg

    with psycopg.connect(second.database_url) as connection:
        assert connection.execute("SELECT session_id FROM ingest_session").fetchall() == [("kept",)]


def test_a_web_process_that_dies_is_replaced(start_server: ServerFactory) -> None:
    """The address answers again by itself, on the same port."""
    server = start_server()
    web = next(process for process in family(server) if "ariadne.runtime.web_process" in " ".join(process.cmdline()))
    web.kill()
    assert wait_until(lambda: "starting another" in server.log)
    assert urllib.request.urlopen(f"{server.url}/healthz", timeout=20).status == 200


def test_a_postgres_that_dies_is_started_again(start_server: ServerFactory) -> None:
    """Killed outright, as the kernel does when memory is short: the server is ready again, with its data."""
    server = start_server("postgres-killed")
    pid_file = server.data_dir / "postgres" / "postmaster.pid"
    os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGKILL)
    assert wait_until(lambda: "Postgres has ended, starting it again" in server.log)

    def is_ready() -> bool:
        try:
            return bool(urllib.request.urlopen(f"{server.url}/readyz", timeout=20).status == 200)
        except OSError:
            return False

    assert wait_until(is_ready)


def test_a_taken_port_gets_a_clear_message(tmp_path: Path) -> None:
    """It names the port and the way out, and starts nothing."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run_up(PORT=str(port), DATA_DIR=str(tmp_path / "data"))
    assert result.returncode == 1
    assert re.search(rf"port {port} is taken .*make up PORT={port + 1}", result.stdout)
    assert not (tmp_path / "data" / "postgres").exists()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"PORT": "eighty"}, "PORT=eighty is not a port"),
        ({"PORT": "0", "PROCESSES": "4"}, "set REDIS_URL"),
        ({"PORT": "0", **NOWHERE}, "Check DATABASE_URL"),
        ({"PORT": "0", "DATABASE_URL": "mysql://host/name"}, "DATABASE_URL must look like"),
        ({"PORT": "0", "DEMO": "maybe"}, "DEMO=maybe is not a yes or a no"),
        ({"PORT": "0", "ARIADNE_LOG_LEVEL": "LOUD", **NOWHERE}, "ARIADNE_LOG_LEVEL='LOUD' is not one of DEBUG"),
        ({"PORT": "0", "ARIADNE_PRODUCTON": "1", **NOWHERE}, "No setting is called ARIADNE_PRODUCTON"),
    ],
)
def test_nonsense_is_refused_with_a_way_out(tmp_path: Path, environment: dict[str, str], message: str) -> None:
    """A wrong setting is named, without a traceback."""
    result = run_up(DATA_DIR=str(tmp_path / "data"), **environment)
    assert result.returncode == 1
    assert message in result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("now", 2)])
def test_it_takes_no_arguments_and_says_what_it_takes(argument: str, code: int) -> None:
    """Asking for help starts nothing."""
    command = [sys.executable, "-m", "ariadne.runtime.up", argument]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, "DATA_DIR" in result.stdout) == (code, True)


def test_two_on_one_data_directory_is_refused(server: Server) -> None:
    """The second says who is there instead of harming its data."""
    result = run_up(PORT="0", DATA_DIR=str(server.data_dir))
    assert result.returncode == 1
    assert "another Ariadne already runs" in result.stdout
