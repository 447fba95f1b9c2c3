"""Back up and restore the database and the key files.

A backup is a folder that is renamed into place once it is complete. It is taken from one database snapshot while the
server keeps running. A restore refuses to overwrite a database that contains data.

The programs have the version of the server where they are installed, and the next newer one otherwise.

    python -m ariadne.runtime.backup save FOLDER [--keep 14]
    python -m ariadne.runtime.backup restore FOLDER/ariadne-20261116T031000Z
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ariadne.paths import ROOT
from ariadne.runtime.postgres import ClientPrograms, Postgres, PostgresError, client_programs

DUMP = "database.dump"
FILES = "files"
ANCHORS = "anchors.jsonl"
_PREFIX = "ariadne-"
_PROGRESS_INTERVAL_S = 0.5
# Files that Postgres or `setup` create again. Everything else (secret key, credentials, signing keys) is copied.
_EXCLUDED = {"postgres", "postgres.lock", "run", "postgres.log", "up.log"}
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
        with database(data_dir) as url, _snapshot(url) as (snapshot, newest_anchor):
            _dump(url, partial / DUMP, snapshot)
        (partial / FILES).mkdir()
        for path in data_dir.iterdir() if data_dir.exists() else ():
            if path.name not in _EXCLUDED:
                _copy(path, partial / FILES / path.name)
        if newest_anchor is not None:
            _remove_later_anchors(partial / FILES / ANCHORS, newest_anchor)
        for path in partial.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
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
        _load(url, backup / DUMP)
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


@contextlib.contextmanager
def _snapshot(url: str) -> Iterator[tuple[str, int | None]]:
    """Yield the name of a snapshot of the database, and the number of its newest anchor, None without the table."""
    with psycopg.connect(url) as connection:
        connection.isolation_level, connection.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
        (snapshot,) = connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        (table,) = connection.execute("SELECT to_regclass('ingest_anchormark')").fetchone() or (None,)
        newest = None
        if table is not None:
            (newest,) = connection.execute("SELECT coalesce(max(number), 0) FROM ingest_anchormark").fetchone() or (0,)
        yield snapshot, newest


def _remove_later_anchors(file: Path, newest: int) -> None:
    """Remove the anchors that were written during the dump. They cover entries that it does not have."""
    if not file.exists():
        return
    with file.open("rb") as source:
        lines = [line for line in source if _anchor_number(line) <= newest]
    file.write_bytes(b"".join(lines))


def _anchor_number(line: bytes) -> int:
    """Return the number of an anchor, or 0 for a line that cannot be read, which stays as it is."""
    try:
        return int(json.loads(line)["number"])
    except (ValueError, TypeError, LookupError):
        return 0


def _dump(url: str, dump: Path, snapshot: str) -> None:
    """Write the database into a file with the `pg_dump` of the server's version, or the next newer one."""
    with psycopg.connect(url) as connection:
        server = _server_major(connection)
    programs = programs_for(server, f"to back up Postgres {server}")
    command = [str(programs.folder / "pg_dump"), "--format=custom", "--no-owner", f"--snapshot={snapshot}"]
    command += ["--file", str(dump)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(  # noqa: S603 - a Postgres program with fixed arguments
            command, env=_environment(url), stdout=subprocess.DEVNULL, stderr=errors
        )
        _show_progress(process, dump)
        if process.returncode:
            errors.seek(0)
            raise BackupError(f"pg_dump {programs.major} exited with {process.returncode}: {errors.read().strip()}")


def _load(url: str, dump: Path) -> None:
    """Load a dump in one transaction, so that a failed restore leaves the database empty.

    `pg_restore` sets everything that its own version knows, and Postgres 15 and 16 reject `transaction_timeout`. Its
    output therefore goes through this process, which leaves out settings that the server does not have.
    """
    with psycopg.connect(url) as connection:
        server = _server_major(connection)
        settings = {name for (name,) in connection.execute("SELECT name FROM pg_settings").fetchall()}
    origin, writer = _versions(dump)
    programs = programs_for(writer, f"to read a dump of pg_dump {writer}")
    versions = f"The backup is from Postgres {origin} and the database is Postgres {server}."
    if origin > server:
        sys.stderr.write(f"{versions} Restoring into an older version may fail.\n")
    with tempfile.TemporaryFile("w+b") as errors:
        reader = subprocess.Popen(  # noqa: S603 - a Postgres program with fixed arguments
            [str(programs.folder / "pg_restore"), "--no-owner", "--file=-", str(dump)],
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        loader = subprocess.Popen(  # noqa: S603 - a Postgres program with fixed arguments
            [str(programs.folder / "psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-"],
            env=_environment(url),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        assert reader.stdout is not None
        assert loader.stdin is not None
        # The pipe breaks if psql stopped at an error, which it has written down.
        with contextlib.suppress(BrokenPipeError), reader.stdout, loader.stdin:
            loader.stdin.write(b"BEGIN;\n")
            _write_known_settings(reader.stdout, loader.stdin, settings)
            shutil.copyfileobj(reader.stdout, loader.stdin)
            # Without COMMIT, psql rolls back at the end of its input.
            if reader.wait() == 0:
                loader.stdin.write(b"COMMIT;\n")
        # Both have to be waited for, whatever the other one returned.
        if any([loader.wait(), reader.wait()]):
            errors.seek(0)
            message = errors.read().decode(errors="replace").strip()
            raise BackupError(f"The restore failed and changed nothing. {versions}\n{message}")


def _write_known_settings(source: IO[bytes], target: IO[bytes], settings: set[str]) -> None:
    """Copy the head of a dump without the settings that the server does not have, and name those."""
    for line in source:
        setting = re.match(rb"SET (\w+) = ", line)
        if setting and (name := setting[1].decode()) not in settings:
            sys.stderr.write(f"Left out the setting {name}, which this version of Postgres does not have.\n")
            continue
        target.write(line)
        if line.startswith(b"-- Name: "):
            return


def _versions(dump: Path) -> tuple[int, int]:
    """Return the major versions of the server that a dump is from, and of the `pg_dump` that wrote it."""
    newest = client_programs()[-1]
    result = subprocess.run(  # noqa: S603 - a Postgres program with fixed arguments
        [str(newest.folder / "pg_restore"), "--list", str(dump)], capture_output=True, text=True, check=False
    )
    versions = re.findall(r"Dumped (?:from database|by pg_dump) version: (\d+)", result.stdout)
    if result.returncode or len(versions) != 2:
        raise BackupError(f"pg_restore {newest.major} cannot read {dump}: {result.stderr.strip()}")
    return int(versions[0]), int(versions[1])


def _server_major(connection: psycopg.Connection[Any]) -> int:
    return connection.info.server_version // 10_000


def programs_for(major: int, purpose: str) -> ClientPrograms:
    """Return the oldest installed client programs of version `major` or newer."""
    installed = client_programs()
    for programs in installed:
        if programs.major >= major:
            return programs
    raise BackupError(
        f"postgresql-client-{major} or newer is needed {purpose}, and the newest is {installed[-1].major}."
    )


def _environment(url: str) -> dict[str, str]:
    """Return the environment of a client program.

    The address is passed in the environment because every user of the machine can read command lines.
    """
    parts = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    return {**os.environ, **{variable: parts[key] for key, variable in _ENVIRONMENT.items() if key in parts}}


def _show_progress(process: subprocess.Popen[bytes], dump: Path) -> None:
    """Wait for the program. On a terminal, show the elapsed time and the size of the dump."""
    started_at = time.monotonic()
    while True:
        try:
            process.wait(timeout=_PROGRESS_INTERVAL_S)
            break
        except subprocess.TimeoutExpired:
            size_mb = dump.stat().st_size / 1e6 if dump.exists() else 0.0
            _draw(f"pg_dump: {size_mb:,.0f} MB, {time.monotonic() - started_at:.0f} s")
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
