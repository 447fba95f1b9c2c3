"""Child processes deliver their events, however they are started and however they end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from ports import reserve_port
from receiver import Receiver

# Every process has an exporter: children of `fork` get the parent's, the others make their own when they import this.
PROGRAM = """
import multiprocessing, os, signal, sys
from concurrent.futures import ProcessPoolExecutor
from compact.exporters import AriadneExporter

mode, url, spool, wait_s = sys.argv[1:]
start, _, way = mode.partition("-")
exporter = AriadneExporter(url, "key", spool_dir=spool)

def emit(sender, exporter=exporter):
    for n in range(500):
        exporter.emit({"event": "compact.check", "session_id": sender, "trace_id": sender, "span_id": f"{sender}-{n}"})

def emit_with_own_exporter(sender):
    emit(sender, AriadneExporter(url, "key", spool_dir=spool))

def fork_children(end):
    children = []
    for sender in ("a", "b", "c"):
        pid = os.fork()
        if pid == 0:
            emit(sender)
            end()
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)

def run():
    if start == "os":
        fork_children({
            "_exit": lambda: os._exit(0),
            "exit": lambda: sys.exit(0),
            "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
        }[way])
        return
    context = multiprocessing.get_context(start)
    if way == "pool":
        with context.Pool(3) as pool:  # Terminates its workers at the end of this block.
            pool.map(emit, ["a", "b", "c"])
    elif way == "executor":
        with ProcessPoolExecutor(3, mp_context=context) as pool:
            list(pool.map(emit, ["a", "b", "c"]))
    else:
        target = emit_with_own_exporter if way == "own" else emit
        children = [context.Process(target=target, args=(sender,)) for sender in ("a", "b", "c")]
        for child in children:
            child.start()
        for child in children:
            child.join()

if __name__ == "__main__":
    run()
    assert exporter.flush(float(wait_s))
"""
EXPECTED = Counter(f"{sender}-{n}" for sender in "abc" for n in range(500))
STARTS = ["fork", "forkserver", "spawn"]
# These children end with their exit handlers, so each has its answers before it ends.
ORDERLY = [f"{start}-{way}" for start in STARTS for way in ("process", "own", "executor")] + ["os-exit"]
ABRUPT = [f"{start}-pool" for start in STARTS] + ["os-_exit", "os-killed"]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")


def run(mode: str, url: str, folder: Path, wait_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-W", "ignore", str(program), mode, url, str(folder / "spool"), str(wait_s)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def sent_events(receiver: Receiver) -> Counter[str]:
    return Counter(event["span_id"] for event in receiver.events)


@pytest.mark.req("A-FLT-2")
@pytest.mark.parametrize("mode", ORDERLY)
def test_children_send_each_event_once(mode: str, tmp_path: Path) -> None:
    """The last events of a child arrive before it ends, and none arrives twice."""
    with Receiver() as receiver:
        result = run(mode, receiver.url, tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
        assert sent_events(receiver) == EXPECTED


@pytest.mark.req("A-FLT-2")
@pytest.mark.parametrize("mode", ABRUPT)
def test_events_of_children_that_end_abruptly_arrive(mode: str, tmp_path: Path) -> None:
    """Events are on disk when `emit` returns, so the parent sends them. The server counts a repeated event once."""
    with Receiver() as receiver:
        result = run(mode, receiver.url, tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
        assert set(sent_events(receiver)) == set(EXPECTED)
        assert not [path for path in tmp_path.rglob("*.spool2") if path.stat().st_size]


@pytest.mark.req("A-FLT-2")
@pytest.mark.parametrize("mode", ["fork-process", "os-_exit", "os-killed"])
def test_events_of_children_survive_an_unreachable_server(mode: str, tmp_path: Path) -> None:
    """The next process sends all of them."""
    with reserve_port() as port:
        result = run(mode, f"http://127.0.0.1:{port}", tmp_path, 0.1)
        assert "AssertionError" in result.stderr and "Cannot send to" in result.stderr
        with Receiver(port=port) as receiver:
            result = run("os-exit", receiver.url, tmp_path)
            assert result.returncode == 0
            assert set(sent_events(receiver)) == set(EXPECTED)
            kept = Counter(event["trace_id"] for event in receiver.events)
    assert sum(kept.values()) >= 2 * sum(EXPECTED.values())


SIGNALED = """
import os, signal, sys
from compact.delivery.segments import Segment
from compact.exporters import AriadneExporter
exporter = AriadneExporter(sys.argv[1], "key", spool_dir=sys.argv[2])
def emit(name):
    exporter.emit({"event": "compact.check", "session_id": "s", "trace_id": "t", "span_id": name})
append = Segment.append
def interrupted(segment, record):
    Segment.append = append
    os.kill(os.getpid(), signal.SIGUSR1)
    append(segment, record)
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGUSR1, lambda *_: emit("handler"))
    Segment.append = interrupted
    emit("interrupted")
    assert exporter.flush(60)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""


def test_a_signal_handler_of_a_child_may_emit(tmp_path: Path) -> None:
    """Also while its thread is writing an event."""
    with Receiver() as receiver:
        command = [sys.executable, "-W", "ignore", "-c", SIGNALED, receiver.url, str(tmp_path)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (result.returncode, result.stderr) == (0, "")
        assert sent_events(receiver) == Counter(["interrupted", "handler"])


FORKED_EARLY = """
import os, sys, time
from compact.exporters import AriadneExporter
exporter = AriadneExporter(sys.argv[1], "key", spool_dir=sys.argv[2])
known = set(sys.modules)
def emit(name):
    exporter.emit({"event": "compact.check", "session_id": "s", "trace_id": "t", "span_id": name})
emit("parent")
while "httpcore" not in sys.modules:  # The worker has begun to send.
    time.sleep(0.0005)
pid = os.fork()
if pid == 0:
    emit("child")
    os._exit(0 if exporter.flush(30) else 1)
assert os.waitpid(pid, 0)[1] == 0
assert exporter.flush(30)
assert set(sys.modules) == known, set(sys.modules) - known
"""


@pytest.mark.req("A-FLT-2")
def test_a_child_that_is_forked_during_the_first_request_can_send(tmp_path: Path) -> None:
    """As by `gunicorn --preload`. A module that the parent's worker has half imported would stay so in the child."""
    with Receiver() as receiver:
        command = [sys.executable, "-W", "ignore", "-c", FORKED_EARLY, receiver.url, str(tmp_path)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert (result.returncode, result.stderr) == (0, "")
        assert sent_events(receiver) == Counter(["parent", "child"])
