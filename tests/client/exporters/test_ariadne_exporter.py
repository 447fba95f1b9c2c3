"""The Ariadne exporter loses no event, never raises, and never blocks the agent."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from compact.adapters import AriadneStorage
from compact.delivery.endpoint import server_url
from compact.exceptions import ConfigError
from compact.exporters import AriadneExporter
from ports import reserve_port
from receiver import Answer, Receiver, eventually

Make = Callable[..., AriadneExporter]


def event(number: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "ts": "2026-11-16T04:00:00.000Z",
        "session_id": "session-1",
        "event": "compact.token_estimate",
        "trace_id": "0" * 31 + "1",
        "span_id": f"{number:016x}",
        "started_at": "2026-11-16T04:00:00.000Z",
        "ended_at": "2026-11-16T04:00:00.001Z",
        "status": "ok",
        "properties": {"t_est": number},
        **more,
    }


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which no server listens yet."""
    with reserve_port() as number:
        yield number


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    exporters: list[AriadneExporter] = []

    def make(url: str, **options: Any) -> AriadneExporter:
        options = {"spool_dir": tmp_path / "spool", "max_backoff_s": 0.05, **options}
        exporter = AriadneExporter(url, "key", **options)
        exporters.append(exporter)
        return exporter

    yield make
    for exporter in exporters:
        exporter.close(0.1)


@pytest.mark.req("S-ARI-1", "P-EXP-1", "P-KR-5")
def test_events_arrive_as_spans_within_200_ms(receiver: Receiver, make: Make) -> None:
    """Each event becomes one span, sent with gzip and a bearer key. One of fifty is enough, on a shared machine."""
    exporter = make(receiver.url)
    latencies_s = []
    for number in range(50):
        started = time.monotonic()
        exporter.emit(event(number, payload={"summary": "…"}))
        eventually(lambda number=number: len(receiver.events) == number + 1)
        latencies_s.append(time.monotonic() - started)
        if latencies_s[-1] < 0.2:
            break
    assert min(latencies_s) < 0.2
    request = receiver.requests[-1]
    assert request.path == "/ingest"
    assert request.headers["authorization"] == "Bearer key"
    assert request.headers["content-encoding"] == "gzip"
    assert request.events[-1] == {
        "type": "span",
        "kind": "compact.token_estimate",
        "name": "compact.token_estimate",
        "trace_id": "0" * 31 + "1",
        "span_id": f"{number:016x}",
        "started_at": "2026-11-16T04:00:00.000Z",
        "ended_at": "2026-11-16T04:00:00.001Z",
        "status": "ok",
        "session_id": "session-1",
        "properties": {"t_est": number},
        "payload": {"summary": "…"},
    }


@pytest.mark.parametrize(
    ("given_url", "expected"),
    [
        ("http://h:1", "http://h:1/ingest"),
        ("http://h:1/", "http://h:1/ingest"),
        ("http://h:1/ingest", "http://h:1/ingest"),
        ("https://h/base/ingest/", "https://h/base/ingest"),
        ("h:1", "http://h:1/ingest"),
        ("http://ariadne:KEY@h/ingest", "http://ariadne:KEY@h/ingest"),
    ],
)
def test_url_may_omit_the_ingest_path(given_url: str, expected: str) -> None:
    """URLs with and without /ingest name the same endpoint."""
    assert server_url(given_url, "/ingest") == expected


def test_url_and_key_default_to_the_environment(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ARIADNE_URL and ARIADNE_API_KEY are the defaults. A key inside the URL is sent as HTTP Basic."""
    monkeypatch.setenv("ARIADNE_URL", receiver.url)
    monkeypatch.setenv("ARIADNE_API_KEY", "from-env")
    monkeypatch.setenv("COMPACT_SPOOL_DIR", str(tmp_path))
    exporter = AriadneExporter()
    exporter.emit(event())
    assert exporter.flush()
    exporter.close()
    monkeypatch.delenv("ARIADNE_API_KEY")
    basic = AriadneExporter(receiver.url.replace("http://", "http://ariadne:KEY@"))
    basic.emit(event())
    assert basic.flush()
    basic.close()
    assert [r.headers["authorization"] for r in receiver.requests] == ["Bearer from-env", "Basic YXJpYWRuZTpLRVk="]


def test_without_an_address_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a URL, the exporter does not guess one. It says so once and counts what it drops."""
    monkeypatch.delenv("ARIADNE_URL", raising=False)
    exporter = AriadneExporter(api_key="key")
    exporter.emit({"event": "compact.warning", "session_id": "s1"})
    exporter.emit({"event": "compact.warning", "session_id": "s1"})
    assert not exporter.flush(0.1)
    exporter.close()
    assert exporter.stats()["dropped"] == 2
    assert capsys.readouterr().err.count("ARIADNE_URL is not set") == 1


def test_archive_needs_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive without a destination would prune messages without a copy, so it is an error."""
    monkeypatch.delenv("ARIADNE_URL", raising=False)
    with pytest.raises(ConfigError, match="ARIADNE_URL"):
        AriadneStorage(api_key="key")


@pytest.mark.parametrize("options", [{"timeout_s": 2.5}, {"timeout_s": 0}])
@pytest.mark.req("S-ARI-1")
def test_timeout_over_two_seconds_is_rejected(options: dict[str, Any]) -> None:
    """The specification allows at most 2 s."""
    with pytest.raises(ConfigError, match=r"exporter\.timeout_s"):
        AriadneExporter("http://127.0.0.1:1", spool_dir=None, **options)


def test_large_batches_are_split_and_a_large_event_gets_its_own_body(receiver: Receiver, make: Make) -> None:
    """No batch exceeds the limit. An event that is larger by itself is sent whole."""
    exporter = make(receiver.url, max_body_bytes=4_000)
    for number in range(100):
        exporter.emit(event(number, payload={"text": "x" * 200}))
    exporter.emit(event(100, payload={"text": "x" * 50_000}))
    assert exporter.flush(20)
    *batches, large = receiver.requests
    assert all(len(request.raw) <= 4_000 for request in batches)
    assert {e["span_id"] for e in receiver.events} == {f"{n:016x}" for n in range(101)}
    assert [e["payload"] for e in large.events] == [{"text": "x" * 50_000}]


@pytest.mark.parametrize("text", ["Plain. ", "Сводка работы. ", "\0\x1f"])
def test_a_summary_of_200_kb_arrives_whole(receiver: Receiver, make: Make, text: str) -> None:
    """JSON needs six bytes for some characters, so the event is larger than a body."""
    summary = (text * 200_000)[:200_000]
    exporter = make(receiver.url)
    exporter.emit(event(1, payload={"summary": summary}))
    assert exporter.flush(20)
    assert receiver.events[0]["payload"] == {"summary": summary}


def test_texts_over_the_limit_are_truncated_with_their_original_size(
    receiver: Receiver, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the longest text is cut, and it says how much is missing."""
    summary = "s" * 6_000_000
    exporter = make(receiver.url)
    exporter.emit(event(1, payload={"summary": summary, "note": "kept"}))
    assert exporter.flush(20)
    (sent,) = receiver.events
    assert sent["payload"]["note"] == "kept"
    assert sent["payload"]["summary"].startswith("s" * 2_000_000)
    assert "of 6,000,000 characters removed)" in sent["payload"]["summary"]
    assert sent["payload"]["truncated"]["original_bytes"] > 6_000_000
    assert sent["properties"] == {"t_est": 1}
    assert "over the limit" in capsys.readouterr().err


def test_a_single_event_rejected_as_too_large_is_truncated(make: Make) -> None:
    """A proxy may have a lower limit than the server."""
    with Receiver(Answer(413), Answer(413), Answer()) as receiver:
        exporter = make(receiver.url)
        exporter.emit(event(1, payload={"summary": "s" * 400_000}))
        assert exporter.flush(20)
        sizes = [len(request.raw) for request in receiver.requests]
        assert sizes[0] > 400_000
        assert sizes[2] < 110_000
        assert "characters removed)" in receiver.requests[2].events[0]["payload"]["summary"]
        assert exporter.stats()["sent"] == 1


@pytest.mark.parametrize("status", [301, 404, 405])
def test_events_are_kept_if_the_address_is_wrong(
    make: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """One line names the address. The events are sent as soon as a server answers there."""
    monkeypatch.setattr("compact.delivery.sender._MISCONFIGURED_RETRY_S", 0.01)
    monkeypatch.setattr("compact.delivery.sender._REPEAT_WARNING_S", 0.0)
    with Receiver(*[Answer(status, body={"detail": "Not Found"})] * 5, Answer()) as receiver:
        exporter = make(receiver.url)
        exporter.emit(event(1))
        assert exporter.flush(20)
        assert len(receiver.requests) == 6
        assert exporter.stats() == {
            "sent": 1,
            "rejected": 0,
            "dropped": 0,
            "damaged": 0,
            "failures": 5,
            "queued": 0,
            "spooled": 0,
        }
        errors = capsys.readouterr().err
        assert errors.count("no Ariadne server answers at this address") == 1
        assert f"Cannot send to {receiver.url}/ingest (HTTP {status}" in errors


def test_body_rejected_as_too_large_is_split(make: Make) -> None:
    """A 413 response halves the body until the server accepts it."""
    with Receiver(Answer(413), Answer(413), Answer()) as receiver:
        exporter = make(receiver.url)
        for number in range(8):
            exporter.emit(event(number))
        assert exporter.flush()
        stored = [e["span_id"] for request in receiver.requests[2:] for e in request.events]
        assert sorted(stored) == [f"{n:016x}" for n in range(8)]
        assert exporter.stats()["sent"] == 8


@pytest.mark.req("S-ARI-1")
def test_events_survive_an_unreachable_server(
    make: Make, port: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Events are spooled and sent once the server is up. One log line per outage, without the key."""
    exporter = make(f"http://ariadne:TOPKEY@127.0.0.1:{port}")
    for number in range(50):
        exporter.emit(event(number))
    eventually(lambda: exporter.stats()["failures"] > 1 and exporter.stats()["spooled"] == 50)
    with Receiver(port=port) as receiver:
        assert exporter.flush(10)
        assert [e["span_id"] for e in receiver.events] == [f"{n:016x}" for n in range(50)]
    log = capsys.readouterr().err
    assert log.count("[Ariadne]") == 2
    assert "reachable again" in log
    assert "TOPKEY" not in log
    assert not [path for path in tmp_path.rglob("*.spool2") if path.stat().st_size]


@pytest.mark.req("S-ARI-1")
def test_retry_after_is_honored(make: Make) -> None:
    """503 and 429 responses are retried no earlier than the server asks."""
    with Receiver(Answer(503, {"Retry-After": "0.3"}), Answer(429, {"Retry-After": "0"}), Answer()) as receiver:
        exporter = make(receiver.url, max_backoff_s=30.0)
        started = time.monotonic()
        exporter.emit(event())
        assert exporter.flush(5)
        assert time.monotonic() - started >= 0.3
        assert len(receiver.requests) == 3
        assert exporter.stats() == {
            "sent": 1,
            "rejected": 0,
            "dropped": 0,
            "damaged": 0,
            "failures": 2,
            "queued": 0,
            "spooled": 0,
        }


@pytest.mark.req("S-ARI-1")
def test_rejected_events_are_logged_and_not_retried(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """A rejected event is counted and logged. The rest of its batch counts as sent."""
    rejected = {"success": True, "count": 1, "rejected": [{"index": 0, "path": "span_id", "message": "too long"}]}
    with Receiver(Answer(body=rejected), Answer(400, body={"error": "bad"}), Answer()) as receiver:
        exporter = make(receiver.url)
        exporter.emit(event(0))
        exporter.emit(event(1))
        assert exporter.flush()
        exporter.emit(event(2))
        assert exporter.flush()
        exporter.emit(event(3))
        assert exporter.flush()
        assert len(receiver.requests) == 3
        assert (exporter.stats()["sent"], exporter.stats()["rejected"]) == (2, 2)
    assert re.search(r"\[Ariadne\] The server rejected 1 of 2 events\..*too long", capsys.readouterr().err)


PLANTED = "planted-secret"


@pytest.mark.req("S-ARI-1")
@pytest.mark.parametrize(
    "answer",
    [
        Answer(content=f"<html>Log in to the network, {PLANTED}</html>".encode()),
        Answer(204, content=b""),
        Answer(202, content=b'{"status": "accepted"}'),
        Answer(content=b'{"success": true}'),
        Answer(content=b'{"success": true, "count": true, "rejected": []}'),
        Answer(content=b'{"success": "true", "count": 3, "rejected": []}'),
        Answer(content=b'{"success": true, "count": 2, "rejected": []}'),
        Answer(content=b'{"success": true, "count": 2, "rejected": [{}, {}]}'),
        Answer(content=b'[{"success": true, "count": 3}]'),
        Answer(400, content=f"<html>Bad Request {PLANTED}</html>".encode()),
        Answer(415, content=b'{"error": "' + PLANTED.encode() + b'"}'),
        Answer(413, content=b"<html>Request Entity Too Large</html>"),
    ],
    ids=lambda answer: f"{answer.status} {answer.content[:40].decode()}",
)
def test_only_the_servers_own_answer_lets_go_of_events(
    answer: Answer, make: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A captive portal or a proxy that answers instead of the server has stored nothing, whatever its status."""
    monkeypatch.setattr("compact.delivery.sender._MISCONFIGURED_RETRY_S", 0.01)
    with Receiver(answer) as receiver:
        exporter = make(receiver.url, flush_interval_s=60.0)
        for number in range(3):
            exporter.emit(event(number))
        assert not exporter.flush(0)
        eventually(lambda: exporter.stats()["failures"] > 1)
        assert not exporter.flush(0.05)
        assert exporter.stats() | {"failures": 0} == {
            **{"sent": 0, "rejected": 0, "dropped": 0, "damaged": 0, "failures": 0},
            **{"queued": 0, "spooled": 3},
        }
        receiver.answers = [Answer()]
        assert exporter.flush(20)
        assert exporter.stats()["sent"] == 3
    lines = [line for line in capsys.readouterr().err.splitlines() if "Cannot send" in line]
    assert len(lines) == 1 and f"HTTP {answer.status}" in lines[0] and PLANTED not in lines[0]


@pytest.mark.req("S-ARI-1")
@pytest.mark.parametrize("mode", ["dead", "hanging", "slow"])
def test_emit_never_blocks_the_agent(mode: str, make: Make) -> None:
    """The agent's thread does not wait for answers of the server, which would take at least 8 s for 2,000 events."""
    with Receiver() as receiver:
        slow = Answer(wait=lambda: receiver.released.wait(0.2) and None)
        receiver.answers = [receiver.hang() if mode == "hanging" else slow]
        url = "http://127.0.0.1:1" if mode == "dead" else receiver.url
        exporter = make(url, timeout_s=0.5, max_batch=50)
        events = [event(number) for number in range(2_000)]
        started = time.perf_counter()
        for one in events:
            exporter.emit(one)
        assert time.perf_counter() - started < 5
        exporter.close(0.2)
        assert exporter.stats()["sent"] < len(events)


@pytest.mark.req("S-ARI-1")
def test_drops_from_a_full_queue_are_reported(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """Drops are counted, logged, and sent as a warning event of the session."""
    with Receiver() as receiver:
        receiver.answers = [receiver.hang(), Answer()]
        exporter = make(receiver.url, max_queue=10, max_batch=2)
        exporter.emit(event(0))
        eventually(lambda: receiver.requests)
        for number in range(100):
            exporter.emit(event(number))
        assert exporter.stats()["dropped"] == 90
        receiver.released.set()
        assert exporter.flush()
        reports = eventually(lambda: [e for e in receiver.events if e.get("kind") == "compact.warning"])
    assert reports[0]["properties"]["count"] == 90
    assert reports[0]["properties"]["code"] == "events_dropped"
    assert reports[0]["session_id"] == "session-1"
    assert "90 events were dropped" in capsys.readouterr().err


@pytest.mark.req("S-ARI-1")
def test_spool_size_is_capped_and_drops_are_reported(make: Make, port: int, tmp_path: Path) -> None:
    """The spool stays below its limit by dropping the oldest events."""
    exporter = make(f"http://127.0.0.1:{port}", spool_bytes=40_000, flush_interval_s=0.001)
    for number in range(60):
        exporter.emit(event(number, payload={"noise": os.urandom(800).hex()}))
        eventually(lambda: not exporter.stats()["queued"])
    eventually(lambda: exporter.stats()["dropped"])
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.spool2")) <= 50_000
    with Receiver(port=port) as receiver:
        assert exporter.flush(10)
        kept = [e["span_id"] for e in receiver.events if e["kind"] != "compact.warning"]
        dropped = sum(e["properties"]["count"] for e in receiver.events if e.get("kind") == "compact.warning")
    assert kept[-1] == f"{59:016x}"
    assert len(kept) + dropped == 60


CHILD = """
import os, sys, time
from compact.adapters import AriadneStorage
from compact.exporters import AriadneExporter
exporter = AriadneExporter(sys.argv[1], "key", spool_dir=sys.argv[2])
for n in range(20):
    exporter.emit({"event": "compact.check", "session_id": "s", "trace_id": "t", "span_id": str(n)})
if sys.argv[3] == "killed":
    while exporter.stats()["queued"] or exporter.stats()["spooled"] < 20:
        time.sleep(0.005)
    os.kill(os.getpid(), 9)
"""


def run_child(url: str, spool: Path, ending: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD, url, str(spool), ending]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.req("S-ARI-1")
def test_process_exit_flushes_the_queue(receiver: Receiver, tmp_path: Path) -> None:
    """A script without close() sends its queued events when the interpreter exits."""
    result = run_child(receiver.url, tmp_path, "exit")
    assert (result.returncode, result.stderr) == (0, "")
    assert len(receiver.events) == 20


@pytest.mark.req("S-ARI-1")
@pytest.mark.parametrize("ending", ["exit", "killed"])
def test_next_process_sends_events_left_by_a_dead_one(ending: str, tmp_path: Path, port: int, make: Make) -> None:
    """Events of a process that exits or is killed during an outage are on disk, and the next process sends them."""
    with Receiver(port=port) as hanging:
        hanging.answers = [hanging.hang()]
        result = run_child(hanging.url, tmp_path / "spool", ending)
        assert result.returncode == (0 if ending == "exit" else -signal.SIGKILL)
        assert ending == "killed" or "[Ariadne]" in result.stderr
    with Receiver(port=port) as receiver:
        exporter = make(receiver.url)
        assert exporter.flush(10)
        assert [e["span_id"] for e in receiver.events] == [str(n) for n in range(20)]


FORK = """
import os, sys
from compact.adapters import AriadneStorage
from compact.exporters import AriadneExporter
exporter = AriadneExporter(sys.argv[1], "key", spool_dir=sys.argv[2])
def emit(sender):
    for n in range(5):
        exporter.emit({"event": "compact.check", "session_id": sender, "trace_id": sender, "span_id": f"{sender}-{n}"})
emit("before")
pid = os.fork()
emit("child" if pid == 0 else "parent")
if pid == 0:
    assert exporter.flush(5)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""


@pytest.mark.req("S-ARI-1")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_parent_and_child_of_a_fork_send_their_own_events(receiver: Receiver, tmp_path: Path) -> None:
    """The child has its own queue and worker. No event is lost or sent twice."""
    command = [sys.executable, "-W", "ignore", "-c", FORK, receiver.url, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    sent = sorted(e["span_id"] for e in receiver.events)
    assert sent == sorted(f"{sender}-{n}" for sender in ("before", "child", "parent") for n in range(5))


def test_unusable_spool_directory_falls_back_to_memory(
    receiver: Receiver, make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the directory cannot be created, the exporter logs it and delivers from memory."""
    (tmp_path / "file").write_text("")
    exporter = make(receiver.url, spool_dir=tmp_path / "file")
    exporter.emit(event())
    assert exporter.flush()
    assert "[Ariadne] Cannot open the spool" in capsys.readouterr().err
    assert len(receiver.events) == 1


@pytest.mark.req("S-ARI-1")
def test_unencodable_events_do_not_raise(receiver: Receiver, make: Make) -> None:
    """Events with cycles, non-string keys, sets or lone surrogates are sent as far as possible."""
    cycle: dict[str, Any] = {"session_id": "s", "event": "compact.check"}
    cycle["properties"] = {"again": cycle}
    exporter = make(receiver.url)
    exporter.emit(cycle)
    exporter.emit({"event": "compact.check", "session_id": "s", "properties": {("a", 1): {1, 2}}})
    exporter.emit({"event": "compact.check", "session_id": "s", "properties": {"text": "\ud800", "set": {1}}})
    assert exporter.flush()
    assert len(receiver.events) == 3
    exporter.close()
    exporter.emit(event())
    assert exporter.stats()["dropped"] == 1


FULL_DISK = """
import resource, sys
from compact.adapters import AriadneStorage
from compact.exporters import AriadneExporter
exporter = AriadneExporter(sys.argv[1], "key", spool_dir=sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
for n in range(20):
    exporter.emit({"event": "compact.check", "session_id": "s", "trace_id": "t", "span_id": str(n)})
assert exporter.flush(5)
"""


@pytest.mark.req("S-ARI-1")
def test_full_disk_falls_back_to_memory(receiver: Receiver, tmp_path: Path) -> None:
    """If a batch cannot be written completely, the exporter logs it and delivers from memory."""
    command = [sys.executable, "-c", FULL_DISK, receiver.url, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (result.returncode, result.stderr.count("[Ariadne] Cannot write to the spool")) == (0, 1)
    assert [e["span_id"] for e in receiver.events] == [str(n) for n in range(20)]
