"""deploy/nginx.conf in front of real web processes. Skipped if nginx is not installed."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from live_server import ROOT
from ports import reserve_port
from scale.test_web import Process
from wait import wait_until
from websockets.sync.client import connect

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request(method, path, body=b"{}" if method == "POST" else None)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.fixture
def web() -> Iterator[list[Process]]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        processes = [Process(one), Process(two)]
        # Only the processes keep the sockets open, so that connections to a killed one are refused and not queued.
        one.close()
        two.close()
        yield processes
    for process in processes:
        process.process.kill()
        process.process.wait()


@pytest.fixture
def port() -> Iterator[int]:
    with reserve_port() as number:
        yield number


@pytest.fixture
def nginx(web: list[Process], port: int, tmp_path: Path) -> Iterator[int]:
    """Run nginx with the configuration of the repository, on a free port and with temporary paths."""
    text = (ROOT / "deploy/nginx.conf").read_text()
    for old, new in (
        ("listen 8080;", f"listen 127.0.0.1:{port};"),
        ("/tmp/ariadne-nginx", f"{tmp_path}/nginx"),
        ("/dev/stdout", f"{tmp_path}/access.log"),
    ):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "nginx.conf").write_text(text)
    (tmp_path / "upstream.conf").write_text("".join(f"server 127.0.0.1:{process.port};\n" for process in web))
    command = [NGINX, "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path), "-g", "daemon off; user root;"]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    assert wait_until(lambda: running.poll() is not None or _is_reachable(port))
    yield port
    running.terminate()
    running.wait()


def _is_reachable(port: int) -> bool:
    try:
        return get(port, "/nginx-health")[0] == 200
    except OSError:
        return False


def test_requests_and_websockets_are_forwarded(nginx: int) -> None:
    """GET, POST and websockets reach a web process. Metrics are not exposed."""
    assert get(nginx, "/count") == (200, "0")
    assert get(nginx, "/ingest", "POST")[0] == 200
    assert get(nginx, "/metrics")[0] == 404
    with connect(f"ws://127.0.0.1:{nginx}/ws/tail/") as page:
        page.ping().wait(timeout=10)


def test_dead_process_loses_no_event(web: list[Process], nginx: int) -> None:
    """After one of two processes is killed, the other answers every POST."""
    assert {get(nginx, "/ingest", "POST")[0] for _ in range(10)} == {200}
    web[0].process.kill()
    web[0].process.wait()
    assert {get(nginx, "/ingest", "POST")[0] for _ in range(20)} == {200}
