"""Start a server for a test in the same way as `make up`.

A new server spends most of its start on initdb, migrations and password hashes. `prepare` does the first two once per
test run, and a server that gets this folder starts from a copy of it, with fast password hashes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 90.0
_PREPARE = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
"""
# A test can kill a process, but not the machine.
_WITHOUT_SYNC = "\nfsync = off\nfull_page_writes = off\n"
_SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.server_settings"}
# Variables that would point the test server at a real one, and one that would compile each module in each process.
_NOT_INHERITED = {"DATABASE_URL", "REDIS_URL", "PORT", "DATA_DIR", "DEMO", "PROCESSES", "MAKELEVEL"}
_NOT_INHERITED |= {"DJANGO_SETTINGS_MODULE", "PYTHONDONTWRITEBYTECODE"}


@dataclass
class Server:
    """A running server: its address, credentials and supervisor process."""

    url: str
    ingest_key: str
    logins: dict[str, dict[str, str]]
    data_dir: Path
    process: subprocess.Popen[bytes]

    @property
    def ingest_url(self) -> str:
        return f"{self.url}/ingest"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.ingest_key}"}

    @property
    def database_url(self) -> str:
        from ariadne.runtime.postgres import Postgres

        return Postgres(self.data_dir).dsn()

    @property
    def log(self) -> str:
        return (self.data_dir / "up.log").read_text(errors="replace")

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


def prepare(folder: Path) -> None:
    """Create a data directory with a migrated database, without rows and secrets."""
    from ariadne.runtime.postgres import THROWAWAY, Postgres

    with Postgres(folder, options=THROWAWAY).run() as database_url:
        environment = {**_environment(), **_SETTINGS, "DATA_DIR": str(folder), "DATABASE_URL": database_url}
        subprocess.run([sys.executable, "-c", _PREPARE], cwd=ROOT, env=environment, check=True)


def copy_prepared(prepared: Path, data_dir: Path) -> None:
    """Give a new data directory the content of a prepared one. Existing data is kept."""
    data_dir.mkdir(parents=True, exist_ok=True)
    if not (data_dir / "postgres").exists():
        # Unlike shutil, cp keeps the owner, which Postgres checks.
        subprocess.run(["cp", "-Rp", str(prepared / "postgres"), str(data_dir)], check=True)


@contextmanager
def run_server(data_dir: Path, prepared: Path | None = None, /, **environment: str) -> Iterator[Server]:
    """Start a server with the given environment, from a copy of `prepared` if there is one, and stop it at the end."""
    if prepared is not None:
        copy_prepared(prepared, data_dir)
        with (data_dir / "postgres" / "postgresql.conf").open("a") as settings:
            settings.write(_WITHOUT_SYNC)
        environment = {**_SETTINGS, **environment}
    server = _start(data_dir, environment)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.terminate()
            try:
                server.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.process.kill()


def _start(data_dir: Path, environment: dict[str, str]) -> Server:
    data_dir.mkdir(parents=True, exist_ok=True)
    log, credentials = data_dir / "up.log", data_dir / "credentials.json"
    log.unlink(missing_ok=True)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "ariadne.runtime.up"],
            cwd=ROOT,
            env={**_environment(), "PORT": "0", "DEMO": "0", "DATA_DIR": str(data_dir), **environment},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        output = log.read_text(errors="replace")
        if "Ariadne is up" in output:
            content = json.loads(credentials.read_text())
            return Server(content["url"], content["ingest_key"], content["logins"], data_dir, process)
        if process.poll() is not None:
            raise RuntimeError(f"the server exited with {process.returncode}:\n{output}")
        time.sleep(0.05)
    process.kill()
    raise RuntimeError(f"the server did not start:\n{log.read_text(errors='replace')}")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
