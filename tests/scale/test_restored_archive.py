"""The audit log and the archive of a restored backup verify, whatever the server did during the backup."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from live_server import ROOT, Server, run_server

from ariadne.runtime import backup

FIXTURE = Path(__file__).parents[1] / "fixtures" / "upgrades" / "d6bd86ba"
# An entry of the audit log, and the anchor that covers it.
_ADD = """
import django
django.setup()
from django.db import transaction
from viewer.audit import log
from viewer.audit.anchors import anchor_series
with transaction.atomic():
    log.record(log.Origin(None, "ann"), log.Action.LOGIN)
anchor_series.write()
"""


def run(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DATA_DIR": str(server.data_dir), "DATABASE_URL": server.database_url}
    environment |= {"DJANGO_SETTINGS_MODULE": "ariadne.settings"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=90, check=False)


def verify(server: Server) -> tuple[int, str]:
    result = run(server, "manage.py", "verify_archive")
    return result.returncode, result.stdout + result.stderr


@pytest.mark.req("A-ARC-2", "A-UPG-1")
def test_a_restored_backup_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two projects of an earlier version. An anchor that is written during the dump is not in the backup either.

    With the newer anchors of the server instead of its own, the backup is found to be older.
    """
    monkeypatch.delenv("DATABASE_URL", raising=False)
    backup.restore(FIXTURE, data_dir=tmp_path / "first")
    with run_server(tmp_path / "first") as first:
        assert verify(first)[0] == 0
        dump = backup._dump

        def slow_dump(*arguments: Any) -> None:
            dump(*arguments)
            assert run(first, "-c", _ADD).returncode == 0

        monkeypatch.setattr(backup, "_dump", slow_dump)
        saved = backup.save(tmp_path / "backups", data_dir=first.data_dir)
        first.stop()
    backup.restore(saved, data_dir=tmp_path / "second")
    with run_server(tmp_path / "second") as second:
        code, text = verify(second)
        assert code == 0 and "Verified up to anchor" in text, text
        second.stop()
    shutil.copy(tmp_path / "first" / "anchors.jsonl", tmp_path / "second" / "anchors.jsonl")
    with run_server(tmp_path / "second") as older:
        code, text = verify(older)
        assert code == 1 and "restored from an older backup" in text, text
        older.stop()
