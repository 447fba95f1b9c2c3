"""Backup and restore with the pg_dump of the embedded server."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import ServerFactory
from live_server import ROOT, Server
from scale.agent import post_events, span, stored_spans
from scale.older_postgres import older_postgres
from wait import wait_until

from ariadne.runtime import backup as backup_module
from ariadne.runtime.postgres import ClientPrograms


def backup(*arguments: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return subprocess.run(
        [sys.executable, "-m", "ariadne.runtime.backup", *arguments],
        cwd=ROOT,
        env={**environment, "DATA_DIR": str(data_dir)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def all_rows(server: Server) -> dict[str, list[tuple[object, ...]]]:
    """Return the sorted rows of every table."""
    with psycopg.connect(server.database_url) as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
            " AND relnamespace = 'public'::regnamespace ORDER BY relname"
        ).fetchall()
        return {
            name: connection.execute(f'SELECT t::text FROM "{name}" t ORDER BY 1').fetchall()  # type: ignore[arg-type]
            for (name,) in names
        }


def test_restore_returns_every_row_and_key(start_server: ServerFactory, tmp_path: Path) -> None:
    """A backup of a running server, restored into another folder, has the same rows, logins and ingest key."""
    first = start_server("first")
    post_events(first, [span("kept", f"s{number}") for number in range(300)])
    # The search index is filled in the background.
    assert wait_until(lambda: bool(all_rows(first)["ingest_search"]))
    saved = backup("save", str(tmp_path / "backups"), data_dir=first.data_dir)
    assert saved.returncode == 0, saved.stderr
    folder = Path(saved.stdout.strip())
    before = all_rows(first)
    assert len(before["ingest_span"]) == 300
    first.stop()
    shutil.rmtree(first.data_dir)

    restored = backup("restore", str(folder), data_dir=tmp_path / "second")
    assert restored.returncode == 0, restored.stderr
    second = start_server("second")
    assert (second.ingest_key, second.logins) == (first.ingest_key, first.logins)
    after = all_rows(second)
    # Retention remembers its last run, which the second server has had too.
    changed = {name: rows for name, rows in after.items() if rows != before[name]}
    assert set(changed) <= {"ingest_retentionclock"}, changed
    # Sequence numbers continue, so that no client cursor meets a number twice.
    post_events(second, [span("kept", "new")])
    seqs = {span_id: seq for _, span_id, seq in stored_spans(second.database_url)}
    assert seqs.pop("new") > max(seqs.values())

    refused = backup("restore", str(folder), data_dir=second.data_dir)
    assert refused.returncode == 1
    assert "Restore into an empty database" in refused.stderr


def test_keep_deletes_older_backups(postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--keep 1` deletes older backups and nothing else in the folder."""
    folder = tmp_path / "backups"
    (folder / "ariadne-20200101T000000Z").mkdir(parents=True)
    (folder / "mine").mkdir()
    monkeypatch.setenv("DATABASE_URL", postgres.dsn("postgres"))
    newest = backup_module.save(folder, data_dir=tmp_path / "none", keep=1)
    assert sorted(path.name for path in folder.iterdir()) == [newest.name, "mine"]


def test_failed_backup_leaves_no_files(postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No partial backup remains, and the error contains the message of pg_dump."""
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
        connection.execute("CREATE ROLE outsider LOGIN")
        connection.execute("CREATE TABLE not_theirs ()")
    try:
        monkeypatch.setenv("DATABASE_URL", postgres.dsn("postgres").replace("ariadne@", "outsider@"))
        with pytest.raises(backup_module.BackupError, match="permission denied for table not_theirs"):
            backup_module.save(tmp_path / "backups", data_dir=tmp_path)
    finally:
        with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
            connection.execute("DROP TABLE not_theirs")
            connection.execute("DROP ROLE outsider")
    assert list((tmp_path / "backups").iterdir()) == []


@pytest.mark.parametrize("source", ["the same version", "the bundled version"])
def test_backup_is_restored_on_an_older_server(
    source: str, tmp_path: Path, postgres: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bundled pg_restore writes settings that Postgres 15 and 16 do not have. They are left out, by name."""
    with older_postgres(tmp_path / "older") as older:
        origin = older if source == "the same version" else postgres
        origin.create_database("origin")
        older.create_database("restored")
        with psycopg.connect(origin.dsn("origin")) as connection:
            connection.execute("CREATE TABLE note (text text)")
            # A line of the data that looks like a setting is data.
            connection.execute("INSERT INTO note VALUES ('SET transaction_timeout = 0;')")
        # Only the bundled programs, as on a machine without packages.
        bundled = backup_module.client_programs()[-1]
        monkeypatch.setattr(backup_module, "client_programs", lambda: [bundled])
        monkeypatch.setenv("DATABASE_URL", origin.dsn("origin"))
        saved = backup_module.save(tmp_path / "backups", data_dir=tmp_path / "none")
        monkeypatch.setenv("DATABASE_URL", older.dsn("restored"))
        backup_module.restore(saved, data_dir=tmp_path / "data")
        said = capsys.readouterr().err
        assert "Left out the setting transaction_timeout" in said
        assert ("Restoring into an older version may fail" in said) == (origin is postgres)
        with psycopg.connect(older.dsn("restored")) as connection:
            assert connection.execute("SELECT text FROM note").fetchall() == [("SET transaction_timeout = 0;",)]
    if origin is postgres:
        with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
            connection.execute("DROP DATABASE origin")


def test_programs_have_the_version_of_the_server(
    tmp_path: Path, postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest programs that can do it are used. An error names the versions if there are none."""
    old, same, newer = (ClientPrograms(major, tmp_path / str(major)) for major in (9, 18, 99))
    monkeypatch.setattr(backup_module, "client_programs", lambda: [old, same, newer])
    assert backup_module.programs_for(18, "to test") == same
    monkeypatch.setattr(backup_module, "client_programs", lambda: [old])
    monkeypatch.setenv("DATABASE_URL", postgres.dsn("postgres"))
    with pytest.raises(backup_module.BackupError, match=r"postgresql-client-18 or newer is needed .* the newest is 9"):
        backup_module.save(tmp_path / "backups", data_dir=tmp_path / "none")


def test_failed_restore_leaves_the_database_empty(
    tmp_path: Path, postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged dump is an error that names the versions, and nothing of it stays."""
    for name in ("damaged", "target"):
        postgres.create_database(name)
    with psycopg.connect(postgres.dsn("damaged")) as connection:
        connection.execute("CREATE TABLE first (text text)")
        connection.execute("INSERT INTO first SELECT md5(n::text) FROM generate_series(1, 20000) n")
    monkeypatch.setenv("DATABASE_URL", postgres.dsn("damaged"))
    saved = backup_module.save(tmp_path / "backups", data_dir=tmp_path / "none")
    dump = saved / backup_module.DUMP
    dump.write_bytes(dump.read_bytes()[: dump.stat().st_size // 2])
    monkeypatch.setenv("DATABASE_URL", postgres.dsn("target"))
    with pytest.raises(backup_module.BackupError, match=r"changed nothing\. The backup is from Postgres 18"):
        backup_module.restore(saved, data_dir=tmp_path / "data")
    with psycopg.connect(postgres.dsn("target")) as connection:
        assert connection.execute("SELECT to_regclass('first')").fetchone() == (None,)
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE damaged")
        connection.execute("DROP DATABASE target")


def test_backup_is_readable_by_its_owner_only(postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files have mode 600 and folders 700, whatever the mode of their source."""
    data_dir = tmp_path / "data"
    (data_dir / "keys").mkdir(parents=True, mode=0o755)
    (data_dir / "keys" / "signing.key").write_text("secret")
    (data_dir / "keys" / "signing.key").chmod(0o644)
    monkeypatch.setenv("DATABASE_URL", postgres.dsn("postgres"))
    saved = backup_module.save(tmp_path / "backups", data_dir=data_dir)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (saved, *saved.rglob("*"))}
    assert modes == {saved.name: 0o700, "database.dump": 0o600, "files": 0o700, "keys": 0o700, "signing.key": 0o600}
