"""Backup and restore with the pg_dump of the embedded server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
from conftest import ServerFactory
from live_server import ROOT, Server
from scale.agent import post_events, span, stored_spans
from wait import wait_until


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
    assert {name: rows for name, rows in after.items() if rows != before[name]} == {}
    # Sequence numbers continue, so that no client cursor meets a number twice.
    post_events(second, [span("kept", "new")])
    seqs = {span_id: seq for _, span_id, seq in stored_spans(second.database_url)}
    assert seqs.pop("new") > max(seqs.values())

    refused = backup("restore", str(folder), data_dir=second.data_dir)
    assert refused.returncode == 1
    assert "Restore into an empty database" in refused.stderr


def test_keep_deletes_older_backups(postgres: object, tmp_path: Path, monkeypatch: object) -> None:
    """`--keep 1` deletes older backups and nothing else in the folder."""
    from ariadne.runtime import backup as module

    folder = tmp_path / "backups"
    (folder / "ariadne-20200101T000000Z").mkdir(parents=True)
    (folder / "mine").mkdir()
    monkeypatch.setenv("DATABASE_URL", postgres.dsn("postgres"))  # type: ignore[attr-defined]
    newest = module.save(folder, data_dir=tmp_path / "none", keep=1)
    assert sorted(path.name for path in folder.iterdir()) == [newest.name, "mine"]


def test_failed_backup_leaves_no_files(tmp_path: Path, monkeypatch: object) -> None:
    """No partial backup remains, and the error contains the message of pg_dump."""
    from ariadne.runtime import backup as module

    monkeypatch.setenv("DATABASE_URL", "postgresql://ariadne@127.0.0.1:1/none")  # type: ignore[attr-defined]
    try:
        module.save(tmp_path / "backups", data_dir=tmp_path)
    except module.BackupError as error:
        assert "pg_dump exited with 1" in str(error)
    else:
        raise AssertionError("the backup should have failed")
    assert list((tmp_path / "backups").iterdir()) == []
