"""`make up` from the outside: its output, the data it keeps, and the processes it leaves behind."""

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

import httpx
import psutil
import psycopg
import pytest
from conftest import ServerFactory
from live_server import ROOT, Server, run_server
from wait import wait_until

UNREACHABLE = {"DATABASE_URL": "postgresql://ariadne@127.0.0.1:1/none"}


def process_tree(server: Server) -> list[psutil.Process]:
    """Return the supervisor and all its descendants."""
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


def test_credentials_are_printed_and_written(server: Server) -> None:
    """The address, four logins and the ingest key are printed and written to credentials.json with mode 600."""
    file = server.data_dir / "credentials.json"
    content = json.loads(file.read_text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert set(content) == {"url", "ingest_key", "logins"}
    assert set(content["logins"]) == {"operator", "developer", "auditor", "admin"}
    for login in content["logins"].values():
        assert f"{login['username']} / {login['password']}" in server.log
    assert f"export ARIADNE_URL={content['url']}\n" in server.log
    assert f"export ARIADNE_API_KEY={content['ingest_key']}\n" in server.log
    assert urllib.request.urlopen(f"{content['url']}/healthz", timeout=5).status == 200


def test_a_server_for_other_machines_has_one_login_and_a_warning(start_server: ServerFactory) -> None:
    """Logins of the demo are only for a server on loopback."""
    server = start_server(BIND="0.0.0.0")
    assert set(server.logins) == {"admin"}
    assert "WARNING: this server listens on 0.0.0.0" in server.log and "TLS" in server.log
    assert "Logins of the demo exist" not in server.log
    with psycopg.connect(server.database_url) as connection:
        assert connection.execute("SELECT username FROM auth_user").fetchall() == [("admin",)]


def test_logins_of_the_demo_are_named_when_other_machines_reach_them(tmp_path: Path, prepared_data: Path) -> None:
    """They exist from an earlier start on loopback, which has no warning. Another loopback address works too."""
    with run_server(tmp_path, prepared_data, BIND="127.0.0.2") as server:
        assert server.url.startswith("http://127.0.0.2:")
        assert "WARNING" not in server.log
    with run_server(tmp_path, BIND="0.0.0.0", DJANGO_SETTINGS_MODULE="tests.server_settings") as server:
        assert set(server.logins) == {"operator", "developer", "auditor", "admin"}
        assert "Logins of the demo exist: auditor, developer, operator." in server.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_process_survives_the_supervisor(start_server: ServerFactory, number: int) -> None:
    """SIGINT, SIGTERM and SIGKILL to the supervisor also stop Postgres and the web process."""
    server = start_server(DEMO="1")
    processes = process_tree(server)
    assert any("postgres" in process.name() for process in processes)
    server.stop(number)
    assert wait_until(lambda: not any(process.is_running() for process in processes)), [
        process.cmdline() for process in processes if process.is_running()
    ]


def test_second_start_keeps_data_and_logins(tmp_path: Path) -> None:
    """Data and credentials survive kill -9, also in a directory with a space in its name. Nothing is prepared."""
    folder = tmp_path / "with a space"
    event = {"event": "compact.warning", "session_id": "kept", "ts": time.time(), "message": "hello"}
    with run_server(folder) as first:
        answer = httpx.post(first.ingest_url, json=event, headers=first.headers, timeout=30)
        assert answer.json()["count"] == 1
        processes = process_tree(first)
        first.stop(signal.SIGKILL)
        assert wait_until(lambda: not any(process.is_running() for process in processes))
    with run_server(folder) as second:
        assert (second.ingest_key, second.logins) == (first.ingest_key, first.logins)
        with psycopg.connect(second.database_url) as connection:
            assert connection.execute("SELECT session_id FROM ingest_session").fetchall() == [("kept",)]
            (password,) = connection.execute("SELECT password FROM auth_user WHERE username = 'admin'").fetchone() or (
                "",
            )
    assert password.startswith("pbkdf2_sha256$")


def test_dead_web_process_is_replaced(start_server: ServerFactory) -> None:
    """The server answers again on the same port."""
    server = start_server()
    web = next(
        process for process in process_tree(server) if "ariadne.runtime.web_process" in " ".join(process.cmdline())
    )
    web.kill()
    assert wait_until(lambda: "Starting a new one" in server.log)
    assert urllib.request.urlopen(f"{server.url}/healthz", timeout=20).status == 200


def test_dead_postgres_is_restarted(start_server: ServerFactory) -> None:
    """After kill -9 of Postgres, as by the out-of-memory killer, the server becomes ready again."""
    server = start_server("postgres-killed")
    pid_file = server.data_dir / "postgres" / "postmaster.pid"
    os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGKILL)
    assert wait_until(lambda: "Postgres has stopped. Restarting" in server.log)

    def is_ready() -> bool:
        try:
            return bool(urllib.request.urlopen(f"{server.url}/readyz", timeout=20).status == 200)
        except OSError:
            return False

    assert wait_until(is_ready)


def test_port_in_use_is_reported(tmp_path: Path) -> None:
    """The message names the port and a command that works, and nothing is started."""
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = occupied.getsockname()[1]
        result = run_up(PORT=str(port), DATA_DIR=str(tmp_path / "data"))
    assert result.returncode == 1
    assert re.search(rf"port {port} is in use .*make up PORT={port + 1}", result.stdout)
    assert not (tmp_path / "data" / "postgres").exists()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"PORT": "eighty"}, "PORT=eighty is not a valid port"),
        ({"PORT": "0", "PROCESSES": "4"}, "Set REDIS_URL"),
        ({"PORT": "0", **UNREACHABLE}, "Check DATABASE_URL"),
        ({"PORT": "0", "DATABASE_URL": "mysql://host/name"}, "DATABASE_URL must look like"),
        ({"PORT": "0", "DEMO": "maybe"}, "DEMO=maybe is not valid"),
        ({"PORT": "0", "ARIADNE_LOG_LEVEL": "LOUD", **UNREACHABLE}, "ARIADNE_LOG_LEVEL='LOUD' is not one of DEBUG"),
        ({"PORT": "0", "ARIADNE_PRODUCTON": "1", **UNREACHABLE}, "Unknown setting ARIADNE_PRODUCTON"),
    ],
)
def test_invalid_setting_is_reported(tmp_path: Path, environment: dict[str, str], message: str) -> None:
    """The message names the setting, without a traceback."""
    result = run_up(DATA_DIR=str(tmp_path / "data"), **environment)
    assert result.returncode == 1
    assert message in result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("now", 2)])
def test_arguments_print_the_help(argument: str, code: int) -> None:
    """The help is printed and nothing is started."""
    command = [sys.executable, "-m", "ariadne.runtime.up", argument]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, "--data-dir" in result.stdout + result.stderr) == (code, True)


def test_second_server_on_one_data_directory_is_rejected(server: Server) -> None:
    """The second server reports the first one and does not touch its data."""
    result = run_up(PORT="0", DATA_DIR=str(server.data_dir))
    assert result.returncode == 1
    assert "Another Ariadne server is already running" in result.stdout
