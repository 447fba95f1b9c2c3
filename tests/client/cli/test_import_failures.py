"""compactctl import and watch --once with a server that is unreachable or rejects the key, and with unreadable logs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from compact.cli import exit_codes, main
from receiver import Answer, Receiver

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"
COMMANDS = [["import"], ["watch", "--once", "--state", "state.json"]]


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Logs of two agents, one with a compaction, whose prompt is uploaded before any event."""
    monkeypatch.chdir(tmp_path)
    for name in ("ARIADNE_URL", "ARIADNE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(LOGS, tmp_path / "logs")
    return tmp_path / "logs"


@pytest.mark.req("P-CLI-1")
@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("command", COMMANDS, ids=["import", "watch"])
def test_a_rejected_key_ends_the_import_with_the_first_answer(
    command: list[str], status: int, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is sent a second time, neither events nor transcripts."""
    with Receiver(Answer(status)) as receiver:
        code = main([*command, str(logs), "--url", receiver.url, "--key", "wrong"])
    assert code == exit_codes.UNREACHABLE
    assert len(receiver.requests) == 1
    assert f"HTTP {status}: the server rejected the ingest key" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.req("P-CLI-1")
@pytest.mark.parametrize("command", COMMANDS, ids=["import", "watch"])
def test_an_unreachable_server_ends_the_import_after_a_few_seconds(
    command: list[str], logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refused connection is not waited for as long as a slow answer."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        started_at = time.monotonic()
        code = main([*command, str(logs), "--url", url, "--key", "k"])
        took_s = time.monotonic() - started_at
    assert code == exit_codes.UNREACHABLE
    assert took_s < 20
    assert "refused" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.req("P-CLI-1")
@pytest.mark.parametrize(("content", "problem"), [(b'{"a": 1', ":1: skipped"), (b'{"a": 1}', ": Not a session log")])
def test_a_file_that_is_no_log_prints_no_table(
    content: bytes, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file and its problem are one line on stderr."""
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    assert main(["import", str(file), "--dry-run"]) == exit_codes.UNREADABLE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"{file}{problem}")
    assert captured.err.count("\n") == 1


def test_long_paths_do_not_wrap_in_a_pipe(logs: Path, tmp_path: Path) -> None:
    """A row is one line with the whole path, so that grep finds it. COLUMNS is the width of a terminal."""
    folder = tmp_path / ("long" * 50) / "deep"
    folder.parent.mkdir()
    shutil.move(logs, folder)
    command = [sys.executable, "-m", "compact.cli", "import", str(folder), "--dry-run"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "80"}).stdout
    rows, _, _ = out.partition("\n\n")
    assert len(rows.splitlines()) == 1 + len(list(folder.glob("*.json*")))
    assert str(folder / "codex.jsonl") in out
