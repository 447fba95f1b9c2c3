"""Back up and restore the database and the key files.

A backup is a folder that is renamed into place once it is complete. It is taken from one database snapshot while the
server keeps running. A restore refuses to overwrite a database that contains data.

    python -m ariadne.runtime.backup save FOLDER [--keep 14]
    python -m ariadne.runtime.backup restore FOLDER/ariadne-20261116T031000Z
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ariadne.paths import ROOT
from ariadne.runtime.postgres import Postgres, PostgresError, client_binary

DUMP = "database.dump"
FILES = "files"
_PREFIX = "ariadne-"
_PROGRESS_INTERVAL_S = 0.5
# Files that Postgres or `setup` create again. Everything else (secret key, credentials, signing keys) is copied.
_EXCLUDED = {"postgres", "run", "static", "postgres.log", "up.log"}
_ENVIRONMENT = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}


class BackupError(RuntimeError):
    """The backup or restore failed without changing any data. The message says why."""


def save(folder: Path, *, data_dir: Path, keep: int | None = None) -> Path:
    """Write a new backup into `folder`, delete all but the newest `keep`, and return the path of the new one."""
    if keep is not None and keep < 1:
        raise BackupError(f"--keep must be at least 1, not {keep}: the new backup itself would be deleted")
    name = f"{_PREFIX}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    finished, partial = folder / name, folder / f".{name}.partial"
    if finished.exists():
        raise BackupError(f"{finished} already exists")
    partial.mkdir(parents=True, mode=0o700)
    try:
        with database(data_dir) as url:
            _run("pg_dump", url, "--format=custom", "--no-owner", "--file", str(partial / DUMP))
        (partial / FILES).mkdir()
        for path in data_dir.iterdir() if data_dir.exists() else ():
            if path.name not in _EXCLUDED:
                _copy(path, partial / FILES / path.name)
        partial.rename(finished)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if keep is not None:
        for old in sorted(folder.glob(f"{_PREFIX}*Z"))[:-keep]:
            shutil.rmtree(old)
    return finished


def restore(backup: Path, *, data_dir: Path) -> None:
    """Restore `backup` into an empty database and into `data_dir`."""
    if not (backup / DUMP).exists():
        raise BackupError(f"{backup} is not a backup: it contains no {DUMP}")
    with database(data_dir) as url:
        with psycopg.connect(url) as connection:
            (migrations_table,) = connection.execute("SELECT to_regclass('django_migrations')").fetchone() or (None,)
        if migrations_table is not None:
            raise BackupError("The database already contains data. Restore into an empty database.")
        # One transaction, so that a failed restore leaves the database empty.
        _run("pg_restore", url, "--no-owner", "--exit-on-error", "--single-transaction", str(backup / DUMP))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ANALYZE")
    for path in (backup / FILES).iterdir():
        _copy(path, data_dir / path.name)


@contextlib.contextmanager
def database(data_dir: Path) -> Iterator[str]:
    """Yield the address of the database: `DATABASE_URL`, or the embedded server of `data_dir`, started if necessary."""
    if url := os.environ.get("DATABASE_URL", "").strip():
        yield url
        return
    server = Postgres(data_dir)
    if _is_reachable(server):
        yield server.dsn()
        return
    with server.run() as url:
        yield url


def _is_reachable(server: Postgres) -> bool:
    try:
        psycopg.connect(server.dsn("postgres"), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _run(program: str, url: str, *arguments: str) -> None:
    """Run a Postgres client program.

    The address is passed in the environment because every user of the machine can read command lines.
    """
    connection = {_ENVIRONMENT[key]: str(value) for key, value in conninfo_to_dict(url).items() if key in _ENVIRONMENT}
    command = [str(client_binary(program)), *arguments]
    if program == "pg_restore":
        command[1:1] = ["--dbname", connection["PGDATABASE"]]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(  # noqa: S603 - a Postgres program with fixed arguments
            command, env={**os.environ, **connection}, stdout=subprocess.DEVNULL, stderr=errors
        )
        _show_progress(process, program, dump=Path(arguments[-1]))
        errors.seek(0)
        if process.returncode:
            raise BackupError(f"{program} exited with {process.returncode}: {errors.read().strip()}")


def _show_progress(process: subprocess.Popen[bytes], program: str, *, dump: Path) -> None:
    """Wait for the program. On a terminal, show the elapsed time and the size of the dump."""
    started_at = time.monotonic()
    while True:
        try:
            process.wait(timeout=_PROGRESS_INTERVAL_S)
            break
        except subprocess.TimeoutExpired:
            size_mb = dump.stat().st_size / 1e6 if dump.exists() else 0.0
            _draw(f"{program}: {size_mb:,.0f} MB, {time.monotonic() - started_at:.0f} s")
    _draw("")


def _draw(line: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copy2(source, target)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ariadne.runtime.backup", description="Back up or restore the database and the key files."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    save_parser = commands.add_parser("save", help="write a new backup into a folder")
    save_parser.add_argument("folder", type=Path)
    save_parser.add_argument("--keep", type=int, metavar="N", help="delete all but the newest N backups")
    restore_parser = commands.add_parser("restore", help="restore a backup into an empty database")
    restore_parser.add_argument("backup", type=Path)
    options = parser.parse_args(arguments)
    data_dir = ROOT / os.environ.get("DATA_DIR", ".ariadne")
    try:
        if options.command == "save":
            sys.stdout.write(f"{save(options.folder, data_dir=data_dir, keep=options.keep)}\n")
        else:
            restore(options.backup, data_dir=data_dir)
            sys.stdout.write("Restored. The next start applies any missing migrations.\n")
    except (BackupError, PostgresError, psycopg.Error, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
