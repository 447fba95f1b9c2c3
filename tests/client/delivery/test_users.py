"""A spool that belongs to another user is neither read nor needed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from compact.exporters import AriadneExporter
from ports import reserve_port
from receiver import Receiver

# Becomes another user after the imports, because the interpreter may be in a folder of the first one.
PROGRAM = """
import os, sys
import encodings.idna, httpx
from compact.exporters import AriadneExporter
url, spool, wait_s = sys.argv[1:]
warm_up = AriadneExporter(url, "key", spool_dir=None)
warm_up.emit({"event": "compact.check", "session_id": "warm-up", "trace_id": "t", "span_id": "warm-up"})
warm_up.flush(60)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
exporter = AriadneExporter(url, "key", spool_dir=spool)
for n in range(100):
    exporter.emit({"event": "compact.check", "session_id": "s", "trace_id": "t", "span_id": str(n)})
is_sent = exporter.flush(float(wait_s))
exporter.close(0.1)
sys.exit(0 if is_sent else 3)
"""

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to change users")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user can reach and write. Those of pytest belong to one user."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o777)
        yield path


def run(url: str, spool: Path, wait_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, url, str(spool), str(wait_s)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.req("A-FLT-2")
def test_a_spool_folder_of_another_user_is_not_needed(shared: Path) -> None:
    """The events are sent from memory, and one line says that they are not on disk."""
    folder = shared / "private"
    folder.mkdir(mode=0o700)
    with Receiver() as receiver:
        result = run(receiver.url, folder)
        assert (result.returncode, result.stderr.count("Cannot open the spool")) == (0, 1)
        assert len({event["span_id"] for event in receiver.events}) == 101


@pytest.mark.req("A-FLT-2")
def test_files_of_another_user_in_the_same_folder_stay(shared: Path) -> None:
    """Each user sends its own files. None is deleted or read by the other one."""
    with reserve_port() as port:
        url = f"http://127.0.0.1:{port}"
        root = AriadneExporter(url, "key", spool_dir=shared)
        root.emit({"event": "compact.check", "session_id": "s", "trace_id": "t", "span_id": "of-root"})
        root.close(30)
        (folder,) = shared.iterdir()
        folder.chmod(0o777)
        (file_of_root,) = folder.iterdir()
        with Receiver(port=port) as receiver:
            result = run(url, shared)
            assert (result.returncode, result.stderr) == (0, "")
            assert "of-root" not in {event["span_id"] for event in receiver.events}
            assert list(folder.iterdir()) == [file_of_root]
            later = AriadneExporter(url, "key", spool_dir=shared)
            assert later.flush(60)
            later.close()
            assert receiver.events[-1]["span_id"] == "of-root"
    assert list(folder.iterdir()) == []
