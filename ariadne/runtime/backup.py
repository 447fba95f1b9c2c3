"""Save everything that Ariadne keeps, and bring it back: the database by pg_dump, and the keys beside it.

A backup is a folder that appears whole or not at all, taken from one snapshot while the server goes on. Restoring never
writes over a database that holds something.

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
# The server's own, and what setup makes anew. The rest (secret key, credentials, signing keys) is copied.
_NOT_SAVED = {"postgres", "run", "static", "postgres.log", "up.log"}
_ENVIRONMENT = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}


class BackupError(RuntimeError):
    """Nothing was harmed; the message says what is in the way."""


def save(folder: Path, *, data_dir: Path, keep: int | None = None) -> Path:
    """Write a new backup into `folder` and return where it is; older than the newest `keep` ones are removed."""
    if keep is not None and keep < 1:
        raise BackupError(f"--keep {keep} would remove the backup that is being made")
    name = f"{_PREFIX}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    finished, partial = folder / name, folder / f".{name}.partial"
    if finished.exists():
        raise BackupError(f"{finished} exists already")
    partial.mkdir(parents=True, mode=0o700)
    try:
        with database(data_dir) as url:
            _run("pg_dump", url, "--format=custom", "--no-owner", "--file", str(partial / DUMP))
        (partial / FILES).mkdir()
        for path in data_dir.iterdir() if data_dir.exists() else ():
            if path.name not in _NOT_SAVED:
                _copy(path, partial / FILES / path.name)
        partial.rename(finished)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if keep is not None:
        for old in sorted(folder.glob(f"{_PREFIX}*Z"))[:-keep]:
            shutil.rmtree(old)
    return finished


def restore(backup: Path, *, data_dir: Path) -> None:
    """Bring `backup` back into an empty database and `data_dir`."""
    if not (backup / DUMP).exists():
        raise BackupError(f"{backup} is no backup: it has no {DUMP}")
    with database(data_dir) as url:
        with psycopg.connect(url) as connection:
            (found,) = connection.execute("SELECT to_regclass('django_migrations')").fetchone() or (None,)
        if found is not None:
            raise BackupError("the database holds something already: restore into an empty one")
        # One transaction: a restore that fails half way leaves the database empty.
        _run("pg_restore", url, "--no-owner", "--exit-on-error", "--single-transaction", str(backup / DUMP))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ANALYZE")
    for path in (backup / FILES).iterdir():
        _copy(path, data_dir / path.name)


@contextlib.contextmanager
def database(data_dir: Path) -> Iterator[str]:
    """The address of the database: `DATABASE_URL`, or the embedded server of `data_dir`, started if need be."""
    if url := os.environ.get("DATABASE_URL", "").strip():
        yield url
        return
    server = Postgres(data_dir)
    if _answers(server):
        yield server.dsn()
        return
    with server.running() as url:
        yield url


def _answers(server: Postgres) -> bool:
    try:
        psycopg.connect(server.dsn("postgres"), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _run(program: str, url: str, *arguments: str) -> None:
    """Run one of Postgres's programs; the address goes by the environment, because arguments are for all to see."""
    known = {_ENVIRONMENT[key]: str(value) for key, value in conninfo_to_dict(url).items() if key in _ENVIRONMENT}
    command = [str(client_binary(program)), *arguments]
    if program == "pg_restore":
        command[1:1] = ["--dbname", known["PGDATABASE"]]
    result = subprocess.run(  # noqa: S603 - a program of Postgres, arguments of our own
        command, env={**os.environ, **known}, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise BackupError(f"{program} ended with {result.returncode}: {result.stderr.strip()}")


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copy2(source, target)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ariadne.runtime.backup", description="Save everything, or bring it back."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    saving = commands.add_parser("save", help="write a new backup into a folder")
    saving.add_argument("folder", type=Path)
    saving.add_argument("--keep", type=int, help="remove all but so many of the newest")
    restoring = commands.add_parser("restore", help="bring a backup back into an empty database")
    restoring.add_argument("backup", type=Path)
    options = parser.parse_args(arguments)
    data_dir = ROOT / os.environ.get("DATA_DIR", ".ariadne")
    try:
        if options.command == "save":
            sys.stdout.write(f"{save(options.folder, data_dir=data_dir, keep=options.keep)}\n")
        else:
            restore(options.backup, data_dir=data_dir)
            sys.stdout.write("Restored. The next start brings it up to date.\n")
    except (BackupError, PostgresError, psycopg.Error, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
