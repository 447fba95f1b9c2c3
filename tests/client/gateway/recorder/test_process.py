"""The recorder process: it delivers through the spool, survives bad frames, and continues after it was killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from client.gateway.recorder.wire_feed import Recording, frames_of, read_exchanges
from compact.gateway import frames
from compact.gateway.frames import Frame, Kind
from receiver import Receiver, eventually

VERSION = "claude_code_2.1.327"


class Process:
    """A recorder process, and the relay's end of its pipe."""

    def __init__(self, state: Path, url: str) -> None:
        self.pipe, theirs = socket.socketpair()
        environment = {**os.environ, "XDG_STATE_HOME": str(state), "ARIADNE_URL": url, "ARIADNE_API_KEY": "key"}
        environment["COMPACT_SPOOL_DIR"] = str(state / "spool")
        command = [sys.executable, "-m", "compact.gateway.recorder"]
        with theirs:
            self.process = subprocess.Popen(command, stdin=theirs.fileno(), env=environment, stderr=subprocess.PIPE)

    def send(self, wire: Iterable[Frame]) -> None:
        for frame in wire:
            self.pipe.sendall(frames.encode(frame.kind, frame.exchange, frame.time, frame.payload))

    def replies(self) -> list[Frame]:
        """End the stream, and return what the recorder has sent back."""
        self.pipe.shutdown(socket.SHUT_WR)
        decoder, received = frames.FrameDecoder(), []
        while data := self.pipe.recv(65_536):
            received += list(decoder.feed(data))
        assert self.process.wait(timeout=30) == 0
        return received

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=30)


@contextmanager
def recorder(state: Path, url: str) -> Iterator[Process]:
    process = Process(state, url)
    try:
        yield process
    finally:
        process.pipe.close()
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait(timeout=30)
        assert process.process.stderr is not None
        process.process.stderr.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


def events_of(receiver: Receiver) -> list[dict[str, Any]]:
    """Return the events, without the transcripts that are archived beside them."""
    return [event for request in list(receiver.requests) if request.path == "/ingest" for event in request.events]


def turns(events: Iterable[dict[str, Any]]) -> list[tuple[int, str | None]]:
    # A process that was killed after the server's answer leaves events that the next one sends again.
    versions = {event["span_id"]: event for event in events if event.get("kind") == "compact.request"}
    requests = [event["properties"] for event in versions.values()]
    return [(request["turn"], request["change"]) for request in requests if request["request_class"] == "main"]


def main_session() -> list[dict[str, Any]]:
    """Return the requests of the first session."""
    records = read_exchanges(VERSION)
    return [record for record in records if record["headers"] and session_of(record) == session_of(records[0])]


def session_of(record: dict[str, Any]) -> str:
    return dict(map(tuple, record["headers"]))["x-claude-code-session-id"]


def test_a_session_is_delivered_and_its_client_gets_its_page(tmp_path: Path, receiver: Receiver) -> None:
    """The pipe ends, and the process sends what is left before it ends, too."""
    with recorder(tmp_path, receiver.url) as process:
        for number, record in enumerate(main_session(), 1):
            process.send(frames_of(record, number, client="terminal-1"))
        replies = process.replies()
    sessions = [frame.json() for frame in replies if frame.kind is Kind.SESSION]
    assert [session["client"] for session in sessions] == ["terminal-1"]
    assert sessions[0]["url"].endswith(f"/sessions/{sessions[0]['session_id']}/")
    assert [change for _, change in turns(events_of(receiver))].count("compaction") == 1
    states = [event["properties"]["state"] for event in events_of(receiver) if event.get("kind") == "compact.archival"]
    assert states == ["queued", "stored"]
    assert [request.path.partition("?")[0] for request in receiver.requests].count("/ingest/transcripts") == 1


def test_a_killed_recorder_continues_its_numbers(tmp_path: Path, receiver: Receiver) -> None:
    """The next process sends what is in the spool. Turns go on, also if the state of the session is lost."""
    records = main_session()
    with recorder(tmp_path, receiver.url) as process:
        for number, record in enumerate(records[:3], 1):
            process.send(frames_of(record, number))
        eventually(lambda: len(turns(events_of(receiver))) == 3)
        eventually((tmp_path / "compact" / "gateway" / "sessions.json").exists)
        eventually(lambda: '"turns": 3' in (tmp_path / "compact" / "gateway" / "sessions.json").read_text())
        process.kill()
    shutil.rmtree(tmp_path / "compact" / "gateway" / "sessions", ignore_errors=True)
    with recorder(tmp_path, receiver.url) as process:
        process.send(frames_of(records[3], 9))
        process.replies()
    assert turns(events_of(receiver)) == [(1, "start"), (2, "append"), (3, "append"), (4, None)]
    users = {event["span_id"] for event in events_of(receiver) if event.get("name") == "user"}
    assert len(users) == 1


def test_headless_calls_are_one_session_with_an_exact_compaction(tmp_path: Path, receiver: Receiver) -> None:
    """A prompt, `/compact` and the next prompt each have a recorder of their own."""
    records = main_session()
    for call in (records[:4], records[4:5], records[5:]):
        with recorder(tmp_path, receiver.url) as process:
            for number, record in enumerate(call, 1):
                process.send(frames_of(record, number))
            process.replies()
    changes = [change for _, change in turns(events_of(receiver))]
    assert changes == ["start", "append", "append", "append", "compaction", "append", "append", "append"]
    (result,) = [event for event in events_of(receiver) if event.get("kind") == "compact.pruned_messages"]
    assert result["properties"]["evidence"] == "exact"
    (whole,) = Recording().play(records).of_kind("compact.pruned_messages")
    assert result["properties"]["fates"] == whole["properties"]["fates"]


def test_an_idle_session_survives_a_killed_recorder(tmp_path: Path, receiver: Receiver) -> None:
    """It is written while it waits for its user."""
    records = main_session()
    with recorder(tmp_path, receiver.url) as process:
        process.send(frames_of(records[0], 1))
        eventually(lambda: len(turns(events_of(receiver))) == 1)
        eventually(lambda: any((tmp_path / "compact" / "gateway" / "sessions").glob("*.session")))
        process.kill()
    with recorder(tmp_path, receiver.url) as process:
        process.send(frames_of(records[1], 2))
        process.replies()
    assert turns(events_of(receiver)) == [(1, "start"), (2, "append")]


def test_frames_out_of_step_end_the_process_and_name_the_reason(tmp_path: Path, receiver: Receiver) -> None:
    """The relay starts another one, with frames from the beginning."""
    with recorder(tmp_path, receiver.url) as process:
        process.pipe.sendall(b"\xff" * 64)
        assert process.process.stderr is not None
        assert process.process.wait(timeout=30) == 0
        assert b"out of step" in process.process.stderr.read()


def test_no_header_and_no_key_reach_a_file(tmp_path: Path) -> None:
    """The server is unreachable, so everything is in the spool, which is private."""
    secret = "sk-ant-api03-" + "plantedSECRET0123456789" * 4
    record = main_session()[0]
    record["body"]["messages"][0]["content"][1]["text"] += f" The key is {secret}."
    with recorder(tmp_path, "http://127.0.0.1:9") as process:
        process.send(frames_of(record, 1))
        process.replies()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    contents = b"".join(path.read_bytes() for path in files)
    assert secret.encode() not in contents
    assert json.dumps(record["headers"]).encode() not in contents
