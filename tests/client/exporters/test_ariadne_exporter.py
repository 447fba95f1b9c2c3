"""The Ariadne exporter: nothing lost, nothing raised, nobody waits."""

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
from compact.delivery.sender import server_url
from compact.exceptions import ConfigError
from compact.exporters import AriadneExporter
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
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[AriadneExporter] = []

    def make(url: str, **options: Any) -> AriadneExporter:
        options = {"spool_dir": tmp_path / "spool", "max_backoff_s": 0.05, **options}
        exporter = AriadneExporter(url, "key", **options)
        made.append(exporter)
        return exporter

    yield make
    for exporter in made:
        exporter.close(0.1)


@pytest.mark.req("S-ARI-1", "P-EXP-1", "P-KR-5")
def test_events_arrive_as_spans_within_200_ms(receiver: Receiver, make: Make) -> None:
    """A decision is at the server 200 ms after it was taken: gzip, bearer key, one span an event."""
    exporter = make(receiver.url)
    exporter.emit(event(0))
    assert exporter.flush()
    started = time.monotonic()
    exporter.emit(event(1, payload={"summary": "…"}))
    eventually(lambda: len(receiver.events) == 2)
    assert time.monotonic() - started < 0.2
    request = receiver.requests[-1]
    assert request.path == "/ingest"
    assert request.headers["authorization"] == "Bearer key"
    assert request.headers["content-encoding"] == "gzip"
    assert request.events[-1] == {
        "type": "span",
        "kind": "compact.token_estimate",
        "name": "compact.token_estimate",
        "trace_id": "0" * 31 + "1",
        "span_id": f"{1:016x}",
        "started_at": "2026-11-16T04:00:00.000Z",
        "ended_at": "2026-11-16T04:00:00.001Z",
        "status": "ok",
        "session_id": "session-1",
        "properties": {"t_est": 1},
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
def test_the_address_may_leave_out_the_path(given_url: str, expected: str) -> None:
    """With or without /ingest, the address is the same."""
    assert server_url(given_url, "/ingest") == expected


def test_address_and_key_come_from_the_environment(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ARIADNE_URL and ARIADNE_API_KEY are enough; a key inside the address goes as HTTP Basic."""
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


@pytest.mark.parametrize("options", [{"timeout_s": 2.5}, {"timeout_s": 0}])
@pytest.mark.req("S-ARI-1")
def test_a_timeout_over_two_seconds_is_refused(options: dict[str, Any]) -> None:
    """The specification allows 2 s at most."""
    with pytest.raises(ConfigError, match=r"exporter\.timeout_s"):
        AriadneExporter("http://127.0.0.1:1", spool_dir=None, **options)


def test_large_batches_are_split_and_an_endless_payload_is_left_out(receiver: Receiver, make: Make) -> None:
    """No body is over the limit; an event that could never fit keeps its properties."""
    exporter = make(receiver.url, max_body_bytes=4_000)
    for number in range(100):
        exporter.emit(event(number, payload={"text": "x" * 200}))
    exporter.emit(event(100, payload={"text": "x" * 50_000}))
    assert exporter.flush(20)
    assert all(len(request.raw) <= 4_000 for request in receiver.requests)
    assert {e["span_id"] for e in receiver.events} == {f"{n:016x}" for n in range(101)}
    assert "omitted" in receiver.events[-1]["payload"]
    assert receiver.events[-1]["properties"] == {"t_est": 100}


def test_a_body_that_is_still_too_large_is_halved(make: Make) -> None:
    """A 413 splits the body until the server takes it."""
    with Receiver(Answer(413), Answer(413), Answer()) as receiver:
        exporter = make(receiver.url)
        for number in range(8):
            exporter.emit(event(number))
        assert exporter.flush()
        stored = [e["span_id"] for request in receiver.requests[2:] for e in request.events]
        assert sorted(stored) == [f"{n:016x}" for n in range(8)]
        assert exporter.stats()["sent"] == 8


@pytest.mark.req("S-ARI-1")
def test_a_server_that_is_away_loses_nothing(make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Events wait on disk and are sent when the server comes; one line says so, and names no key."""
    with Receiver() as gone:
        port = gone.port
    exporter = make(f"http://ariadne:TOPKEY@127.0.0.1:{port}")
    for number in range(50):
        exporter.emit(event(number))
    eventually(lambda: exporter.stats()["failures"] > 1)
    assert exporter.stats()["spooled"] == 50
    with Receiver(port=port) as receiver:
        assert exporter.flush(10)
        assert [e["span_id"] for e in receiver.events] == [f"{n:016x}" for n in range(50)]
    said = capsys.readouterr().err
    assert said.count("[Ariadne]") == 2
    assert "reachable again" in said
    assert "TOPKEY" not in said
    assert not [path for path in tmp_path.rglob("*.spool") if path.stat().st_size]


@pytest.mark.req("S-ARI-1")
def test_retry_after_is_honoured(make: Make) -> None:
    """503 and 429 are tried again, not before the time the server named."""
    with Receiver(Answer(503, {"Retry-After": "0.3"}), Answer(429, {"Retry-After": "0"}), Answer()) as receiver:
        exporter = make(receiver.url, max_backoff_s=30.0)
        started = time.monotonic()
        exporter.emit(event())
        assert exporter.flush(5)
        assert time.monotonic() - started >= 0.3
        assert len(receiver.requests) == 3
        assert exporter.stats() == {"sent": 1, "rejected": 0, "dropped": 0, "failures": 2, "queued": 0, "spooled": 0}


@pytest.mark.req("S-ARI-1")
def test_what_the_server_refuses_is_told_and_not_tried_again(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """A rejected event is counted and named; the rest of its batch was stored."""
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
    assert re.search(r"\[Ariadne\] 1 of 2 events rejected.*too long", capsys.readouterr().err)


@pytest.mark.req("S-ARI-1")
@pytest.mark.parametrize("mode", ["dead", "hanging", "slow"])
def test_the_agent_never_waits(mode: str, make: Make) -> None:
    """Whatever the server does, 2,000 events cost the agent's thread well under a tenth of a second."""
    with Receiver() as receiver:
        slow = Answer(wait=lambda: receiver.released.wait(0.2) and None)
        receiver.answers = [receiver.hang() if mode == "hanging" else slow]
        url = "http://127.0.0.1:1" if mode == "dead" else receiver.url
        exporter = make(url, timeout_s=0.5)
        events = [event(number) for number in range(2_000)]
        started = time.perf_counter()
        for one in events:
            exporter.emit(one)
        assert time.perf_counter() - started < 0.1
        started = time.perf_counter()
        exporter.close(0.2)
        assert time.perf_counter() - started < 1.0


@pytest.mark.req("S-ARI-1")
def test_a_full_queue_drops_and_the_server_hears_of_it(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """Drops are counted, told on stderr, and reported as an event of the session."""
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
        reports = eventually(lambda: [e for e in receiver.events if e.get("event") == "compact.warning"])
    assert reports[0]["properties"]["count"] == 90
    assert reports[0]["properties"]["code"] == "events_dropped"
    assert reports[0]["session_id"] == "session-1"
    assert "90 events were dropped" in capsys.readouterr().err


@pytest.mark.req("S-ARI-1")
def test_the_spool_is_capped_and_its_losses_are_reported(make: Make, tmp_path: Path) -> None:
    """The disk fills up to the cap and no further; the oldest goes first."""
    with Receiver() as gone:
        port = gone.port
    exporter = make(f"http://127.0.0.1:{port}", spool_bytes=40_000, flush_interval_s=0.001)
    for number in range(60):
        exporter.emit(event(number, payload={"noise": os.urandom(800).hex()}))
        eventually(lambda: not exporter.stats()["queued"])
    eventually(lambda: exporter.stats()["dropped"])
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.spool")) <= 50_000
    with Receiver(port=port) as receiver:
        assert exporter.flush(10)
        kept = [e["span_id"] for e in receiver.events if "span_id" in e]
        lost = sum(e["properties"]["count"] for e in receiver.events if e.get("event") == "compact.warning")
    assert kept[-1] == f"{59:016x}"
    assert len(kept) + lost == 60


CHILD = """
import os, sys, time
from compact.exporters import AriadneExporter
exporter = AriadneExporter(sys.argv[1], "key", spool_dir=sys.argv[2])
for n in range(20):
    exporter.emit({"event": "compact.check", "session_id": "s", "trace_id": "t", "span_id": str(n)})
if sys.argv[3] == "killed":
    while exporter.stats()["queued"] or exporter.stats()["spooled"] < 20:
        time.sleep(0.005)
    os.kill(os.getpid(), 9)
"""


def run_child(url: str, spool: Path, how: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD, url, str(spool), how]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.req("S-ARI-1")
def test_a_process_that_ends_flushes_first(receiver: Receiver, tmp_path: Path) -> None:
    """No close() in the script: leaving the interpreter sends what is queued."""
    result = run_child(receiver.url, tmp_path, "ended")
    assert (result.returncode, result.stderr) == (0, "")
    assert len(receiver.events) == 20


@pytest.mark.req("S-ARI-1")
@pytest.mark.parametrize("how", ["ended", "killed"])
def test_the_next_process_sends_what_a_dead_one_left(how: str, tmp_path: Path, make: Make) -> None:
    """Server away, process gone, by exit or by kill -9: its events are on disk and arrive with the next process."""
    with Receiver() as hanging:
        hanging.answers = [hanging.hang()]
        started = time.monotonic()
        result = run_child(hanging.url, tmp_path / "spool", how)
        assert time.monotonic() - started < 10
        assert result.returncode == (0 if how == "ended" else -signal.SIGKILL)
        assert how == "killed" or "[Ariadne]" in result.stderr
        port = hanging.port
    with Receiver(port=port) as receiver:
        exporter = make(receiver.url)
        assert exporter.flush(10)
        assert [e["span_id"] for e in receiver.events] == [str(n) for n in range(20)]


FORK = """
import os, sys
from compact.exporters import AriadneExporter
exporter = AriadneExporter(sys.argv[1], "key", spool_dir=sys.argv[2])
def emit(who):
    for n in range(5):
        exporter.emit({"event": "compact.check", "session_id": who, "trace_id": who, "span_id": f"{who}-{n}"})
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
def test_both_sides_of_a_fork_send_their_own(receiver: Receiver, tmp_path: Path) -> None:
    """The child has a queue and a thread of its own; nothing is sent twice, nothing is lost."""
    command = [sys.executable, "-W", "ignore", "-c", FORK, receiver.url, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    sent = sorted(e["span_id"] for e in receiver.events)
    assert sent == sorted(f"{who}-{n}" for who in ("before", "child", "parent") for n in range(5))


def test_a_spool_that_cannot_be_written_is_told_and_done_without(
    receiver: Receiver, make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file where the directory should be: events go through memory."""
    (tmp_path / "file").write_text("")
    exporter = make(receiver.url, spool_dir=tmp_path / "file")
    exporter.emit(event())
    assert exporter.flush()
    assert "[Ariadne] cannot spool" in capsys.readouterr().err
    assert len(receiver.events) == 1


@pytest.mark.req("S-ARI-1")
def test_odd_events_do_no_harm(receiver: Receiver, make: Make) -> None:
    """Cycles, strange keys, sets and lone surrogates are sent as well as they can be; nothing raises."""
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
