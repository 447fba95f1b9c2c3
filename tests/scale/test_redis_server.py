"""The Redis server of the tests dies with the process that started it."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from wait import wait_until

_START_REDIS = """
import sys, time
sys.path[:0] = sys.argv[1:]
from scale.redis_server import Redis
redis = Redis()
redis.start()
print(redis.port, flush=True)
time.sleep(60)
"""


def test_redis_dies_with_its_parent() -> None:
    """No Redis server survives when its parent is killed."""
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-c", _START_REDIS, str(tests), str(tests.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        port = int(starter.stdout.readline())
        assert _is_open(port)
        starter.kill()
    assert wait_until(lambda: not _is_open(port), timeout_s=10)


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
