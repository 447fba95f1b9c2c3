"""compactctl import and watch --once against a server that is unreachable or rejects the key."""

from __future__ import annotations

import shutil
import socket
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
