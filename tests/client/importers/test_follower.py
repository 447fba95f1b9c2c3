"""Import and follow logs: state, growth, rotation, filters and two projects."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_logs import CLAUDE_CODE, CODEX_SESSION
from agent_logs import CLAUDE_CODE_SESSION as CLAUDE
from compact.cli import exit_codes, main
from compact.importers.discovery import LogFilter
from compact.importers.follower import FileReport, Importer
from compact.importers.log_file import LogFile
from compact.importers.upload import DryRun
from compact.importers.watch_state import WatchState
from ports import reserve_port
from receiver import Answer, Receiver, Request, eventually

LINES = CLAUDE.read_bytes().splitlines(keepends=True)


class Project(Receiver):
    """A server that stores the events of each ingest key, and accepts transcripts."""

    def events_of(self, key: str) -> list[dict[str, Any]]:
        requests = [r for r in list(self.requests) if r.path == "/ingest" and r.headers["authorization"].endswith(key)]
        return [event for request in requests for event in request.events]

    def transcripts(self, key: str) -> list[Request]:
        own = [r for r in list(self.requests) if r.headers["authorization"].endswith(key)]
        return [request for request in own if request.path.startswith("/ingest/transcripts")]


@pytest.fixture
def server() -> Iterator[Project]:
    with Project() as receiver:
        yield receiver


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home directory with a Claude Code log and a Codex log."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "ARIADNE_URL", "ARIADNE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    projects = tmp_path / ".claude" / "projects" / "-home-dev-shop"
    projects.mkdir(parents=True)
    (projects / CLAUDE.name).write_bytes(b"".join(line for line in LINES if b"broken" not in line))
    sessions = tmp_path / ".codex" / "sessions" / "2026"
    sessions.mkdir(parents=True)
    (sessions / CODEX_SESSION.name).write_bytes(CODEX_SESSION.read_bytes())
    return tmp_path


def watch(server: Receiver, *options: str, key: str = "key-a") -> int:
    return main(["watch", "--once", "--url", server.url, "--key", key, "--json", *options])


def span_ids(events: list[dict[str, Any]]) -> set[str]:
    return {event["span_id"] for event in events if event["type"] == "span"}


@pytest.mark.req("A-CAP-1")
@pytest.mark.usefixtures("home")
def test_watch_imports_the_agents_logs_once_per_project(server: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The state belongs to one server and key. Another project gets everything, and no secret is sent."""
    assert watch(server) == exit_codes.OK
    logs = json.loads(capsys.readouterr().out)["logs"]
    assert {log["source"]: log["compactions"] for log in logs} == {"claude-code": 2, "codex": 2}
    first = server.events_of("key-a")
    assert len(server.transcripts("key-a")) == 4
    assert watch(server) == exit_codes.OK
    assert server.events_of("key-a") == first
    assert server.events_of("key-b") == []
    assert watch(server, key="key-b") == exit_codes.OK
    assert span_ids(server.events_of("key-b")) == span_ids(first)
    assert b"s3cr3t-Pa55" not in b"".join(request.raw for request in server.requests)


def test_a_watch_without_news_says_why(home: Path, server: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything is imported already, or there are no sessions on this machine."""
    watch(server)
    capsys.readouterr()
    assert watch(server) == exit_codes.OK
    assert "Nothing new in the logs of Claude Code, Codex" in (error := capsys.readouterr().err)
    assert "since the last import (2 found)" in error
    shutil.rmtree(home / ".claude")
    shutil.rmtree(home / ".codex")
    assert watch(server) == exit_codes.OK
    assert "No sessions found in the logs of Claude Code, Codex" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_nothing_is_sent_without_a_key(server: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what to set."""
    assert main(["watch", "--once", "--url", server.url]) == exit_codes.USAGE
    assert "ARIADNE_API_KEY" in capsys.readouterr().err
    assert main(["watch", "--dry-run", "--json"]) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["sent"] == 0
    assert server.requests == []


@pytest.mark.parametrize(
    ("options", "sources"),
    [
        (["--agent", "codex"], ["codex"]),
        (["--project", "/home/dev/shop"], ["claude-code"]),
        (["--project", "/home/dev"], ["claude-code", "codex"]),
        (["--project", "/home/de"], []),
        (["--since", "1h"], ["claude-code"]),
        (["--since", "2020-01-01"], ["claude-code", "codex"]),
    ],
)
def test_filters(home: Path, options: list[str], sources: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """By agent, by the agent's project folder, and by age."""
    old = (datetime.now(UTC) - timedelta(days=3)).timestamp()
    os.utime(next((home / ".codex").rglob("*.jsonl")), (old, old))
    assert main(["watch", "--dry-run", "--json", *options]) == exit_codes.OK
    assert sorted(log["source"] for log in json.loads(capsys.readouterr().out)["logs"]) == sources


def test_a_damaged_line_is_reported_with_file_and_line(
    home: Path, server: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything else is imported, and the exit code is not 0."""
    path = next((home / ".claude").rglob("*.jsonl"))
    path.write_bytes(b"".join(LINES) + b'{"half": ')
    assert watch(server) == exit_codes.UNREADABLE
    captured = capsys.readouterr()
    assert f"{path}:20: skipped" in captured.err
    assert f"{path}:25: skipped, the line is incomplete" in captured.err
    rows = {row["source"]: row for row in json.loads(captured.out)["logs"]}
    assert [skipped["line"] for skipped in rows["claude-code"]["skipped"]] == [20, 25]
    assert rows["claude-code"]["compactions"] == 2


def test_an_unreachable_server_stops_the_import_and_the_next_run_continues(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state advances only behind what the server has confirmed."""
    del home
    monkeypatch.setattr("compact.cli.commands.watch._TIMEOUT_S", 0.5)
    with reserve_port() as port:
        with Project(Answer(status=503, headers={"Retry-After": "0"}), port=port) as broken:
            assert watch(broken) == exit_codes.UNREACHABLE
        assert "continue" in capsys.readouterr().err
        with Project(port=port) as server:
            assert watch(server) == exit_codes.OK
            assert len(server.events_of("key-a")) > 40


class Follow:
    """A follower in a thread."""

    def __init__(self, root: Path, state: WatchState | None = None) -> None:
        self.upload = _Recording()
        self.reports: list[FileReport] = []
        self._is_stopped = False
        self._polls = 0
        importer = Importer(LogFilter([root]), state or WatchState(None), lambda: self.upload)
        self._thread = threading.Thread(target=self._run, args=(importer,), daemon=True)
        self._thread.start()

    def _run(self, importer: Importer) -> None:
        self.reports.extend(importer.follow(self._check_stopped))

    def _check_stopped(self) -> bool:
        self._polls += 1
        return self._is_stopped

    def wait_for_polls(self) -> None:
        """Wait until the logs have been read at least once again."""
        before = self._polls
        eventually(lambda: self._polls >= before + 3)

    def stop(self) -> None:
        self._is_stopped = True
        self._thread.join(10)
        assert not self._thread.is_alive()

    def spans(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in list(self.upload.events) if event.get("kind") == kind]


class _Recording(DryRun):
    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, Any]] = []

    def send(self, events: Any) -> int:
        batch = list(events)
        self.events.extend(batch)
        return super().send(batch)


@pytest.mark.req("A-CAP-1")
def test_a_growing_log_is_followed(tmp_path: Path) -> None:
    """A half-written line waits for its end. A call is open until its result arrives."""
    path = tmp_path / CLAUDE.name
    follow = Follow(tmp_path)
    with path.open("ab", buffering=0) as log:
        for line in LINES[:6]:
            log.write(line)
        eventually(lambda: follow.spans("tool"))
        assert follow.spans("tool")[-1]["ended_at"] is None
        log.write(LINES[6][:50])
        follow.wait_for_polls()
        assert follow.spans("tool")[-1]["ended_at"] is None
        log.write(LINES[6][50:])
        eventually(lambda: follow.spans("tool")[-1]["ended_at"])
        for line in LINES[7:]:
            log.write(line)
        eventually(lambda: len(follow.spans("compact.pruned_messages")) == 2)
    follow.stop()
    path_again = tmp_path / "again" / CLAUDE.name
    path_again.parent.mkdir()
    path_again.write_bytes(b"".join(LINES))
    (step,) = LogFile(path_again).steps(DryRun().archive, is_final=True)
    assert span_ids(step.events) == span_ids(follow.upload.events)


def test_a_truncated_or_replaced_log_starts_again(tmp_path: Path) -> None:
    """The new content is read from its beginning."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(LINES[:10]))
    follow = Follow(tmp_path)
    eventually(lambda: follow.spans("generation"))
    other = next((CLAUDE_CODE / "version_1").glob("1111*"))
    path.write_bytes(other.read_bytes()[: path.stat().st_size // 2].rpartition(b"\n")[0] + b"\n")
    eventually(lambda: any(event.get("session_id", "").startswith("1111") for event in follow.upload.events))
    follow.stop()


def test_a_new_process_continues_behind_the_saved_position(tmp_path: Path) -> None:
    """It reads the log again for the agent's prompt, and sends only what is new: also the size after a compaction."""
    path, state = tmp_path / CLAUDE.name, tmp_path / "state.json"
    path.write_bytes(b"".join(LINES[:16]))
    first = Follow(path, WatchState(state))
    eventually(lambda: first.spans("compact.pruned_messages"))
    first.stop()
    with path.open("ab") as log:
        log.write(b"".join(LINES[16:]))
    second = Follow(path, WatchState(state))
    eventually(lambda: second.spans("compact.pruned_messages"))
    second.stop()
    cleared, pruned = second.spans("compact.pruned_messages")
    assert cleared["span_id"] == first.spans("compact.pruned_messages")[0]["span_id"]
    assert [entry["id"] for entry in pruned["payload"]["ledger"]][:2] == ["u1", "a1"]
    assert {event["span_id"] for event in second.spans("generation")} == {
        event["span_id"] for event in second.spans("generation")
    } - {event["span_id"] for event in first.spans("generation")}


def start_watch(server: Project, *options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "compact.cli", "watch", "--url", server.url, "--key", "key-a", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell ignores SIGINT in background jobs, such as this test run, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - one statement
    )


@pytest.mark.usefixtures("home")
def test_a_watch_reports_logs_that_exist_when_it_starts(server: Project) -> None:
    """As JSON, one line per log, in the form in which news are reported later."""
    process = start_watch(server, "--json")
    assert process.stdout is not None
    rows = [json.loads(process.stdout.readline()) for _ in range(2)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert {row["source"]: row["compactions"] for row in rows} == {"claude-code": 2, "codex": 2}


@pytest.mark.usefixtures("home")
def test_ctrl_c_ends_a_watch_cleanly(server: Project) -> None:
    """The exit code is 0, and there is no traceback."""
    process = start_watch(server)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(b"Watching"):
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"Stopped. Run the same command to continue.\n")


@pytest.mark.parametrize("is_old", [True, False])
def test_the_open_calls_of_a_copied_log_end(tmp_path: Path, is_old: bool) -> None:
    """The time in the log counts, not that of the file. An agent that still works waits for its tool."""
    path, upload = tmp_path / CLAUDE.name, _Recording()
    last_at = "2026-01-01T00:00:00.000Z" if is_old else datetime.now(UTC).isoformat()
    lines = [{**json.loads(line), "timestamp": last_at} for line in LINES[:6]]
    assert '"tool_use"' in json.dumps(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    importer = Importer(LogFilter([path]), WatchState(None), lambda: upload)
    list(importer.import_all(importer.find_pending()))
    calls = [event for event in upload.events if event.get("kind") == "tool"]
    assert [call["ended_at"] is not None for call in calls[-1:]] == [is_old]
