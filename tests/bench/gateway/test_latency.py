"""Latency, CPU time, rate and memory of the relay beside a direct call and nginx, all in one run.

The goals are those of a quiet machine and are differences to nginx of the same run. See README.md.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from gateways import Gateway, running_gateway
from ports import reserve_port
from wait import wait_until

LOAD = Path(__file__).with_name("load.py")
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
SECONDS = float(os.environ.get("GATEWAY_SECONDS", "40"))
STREAMS = 50
PROMPT_BYTES = 400_000
_CONFIG = """
daemon off; worker_processes 1; pid {directory}/pid; error_log {directory}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_max_body_size 0; keepalive_requests 1000000; client_body_buffer_size 1m;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/f;
  uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  upstream provider {{ server 127.0.0.1:{provider}; keepalive 64; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off;
    }}
  }}
}}
"""
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


def load(mode: str, *arguments: Any) -> Any:
    command = [sys.executable, str(LOAD), mode, *map(json.dumps, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def nginx(provider: str) -> Iterator[tuple[str, psutil.Process]]:
    with tempfile.TemporaryDirectory() as directory, reserve_port() as port:
        config = Path(directory, "nginx.conf")
        config.write_text(_CONFIG.format(directory=directory, port=port, provider=provider.rpartition(":")[2]))
        Path(directory).chmod(0o755)
        assert NGINX is not None
        process = subprocess.Popen([NGINX, "-e", f"{directory}/error.log", "-c", str(config)])
        assert wait_until(lambda: bool(psutil.Process(process.pid).children()), timeout_s=20)
        yield f"http://127.0.0.1:{port}", psutil.Process(process.pid).children()[0]
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def gateways(provider: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Gateway]]:
    environment = {"ARIADNE_URL": "http://127.0.0.1:9", "ARIADNE_API_KEY": "k"}
    os.environ.update(environment)
    addresses = {"anthropic": provider}
    recorder = (sys.executable, "-m", "compact.gateway.recorder")
    names = {"plain": (), "recording": recorder, "stopped": recorder}
    directories = {name: tmp_path_factory.mktemp(name) for name in names}
    with (
        running_gateway(directories["plain"], addresses=addresses, recorder=()) as plain,
        running_gateway(directories["recording"], addresses=addresses, recorder=recorder) as recording,
        running_gateway(directories["stopped"], addresses=addresses, recorder=recorder) as stopped,
    ):
        pid = stopped.recorder_pid()
        os.kill(pid, signal.SIGSTOP)
        yield {"plain": plain, "recording": recording, "stopped recorder": stopped}
        os.kill(pid, signal.SIGCONT)
    for name in environment:
        del os.environ[name]


def test_streams(provider: str, nginx: tuple[str, psutil.Process], gateways: dict[str, Gateway]) -> None:
    """50 streams with prompts of 400 kB, spread over the run, in turn to each target."""
    targets = {"direct": provider, "nginx": nginx[0]}
    targets |= {name: f"{gateway.url}/anthropic" for name, gateway in gateways.items()}
    processes = {"nginx": [nginx[1]]}
    for name, gateway in gateways.items():
        relay = psutil.Process(gateway.process.pid)
        processes[name] = [relay, *relay.children()]
    before = {name: [cpu(process) for process in items] for name, items in processes.items()}
    result = load("streams", targets, PROMPT_BYTES, STREAMS, SECONDS)
    assert result["errors"] == 0
    print(f"\n{'':<18} first p50    p99   chunk p50    p99   CPU ms per stream (recorder)   RSS MB (recorder)")
    for name, row in result["targets"].items():
        items = processes.get(name, [])
        used = [(cpu(p) - b) * 1e3 / row["count"] for p, b in zip(items, before.get(name, []), strict=True)]
        rss = [process.memory_info().rss / 1e6 for process in items]
        figures = f"{row['first_p50']:9.2f} {row['first_p99']:8.2f} {row['chunk_p50']:9.3f} {row['chunk_p99']:8.3f}"
        print(f"{name:<18} {figures}   {show(used):>18} {show(rss):>24}")
    for name, gateway in gateways.items():
        metrics = gateway.metrics()
        print(f"{name}: {metrics['gaps_total']:.0f} gaps, queue {metrics['queue_bytes'] / 1e6:.1f} MB")
        assert metrics["queue_bytes"] <= 10 << 20
        # A relay whose recorder is stopped holds its whole queue.
        assert psutil.Process(gateway.process.pid).memory_info().rss < 60e6
    rows = result["targets"]
    assert rows["recording"]["first_p50"] < rows["nginx"]["first_p50"] + 5
    assert rows["stopped recorder"]["first_p50"] < rows["nginx"]["first_p50"] + 5


def test_burst(provider: str, nginx: tuple[str, psutil.Process], gateways: dict[str, Gateway]) -> None:
    """50 streams at one instant, which is 20 MB."""
    targets = {"direct": provider, "nginx": nginx[0]}
    targets |= {name: f"{gateway.url}/anthropic" for name, gateway in gateways.items()}
    print()
    for name, row in load("burst", targets, PROMPT_BYTES, STREAMS).items():
        print(f"{name:<18} first p50 {row['first_p50']:8.1f} ms  p99 {row['first_p99']:8.1f} ms")


def test_rate(provider: str, nginx: tuple[str, psutil.Process], gateways: dict[str, Gateway]) -> None:
    """Bodies of 100 kB with short answers over 16 connections."""
    targets = {"direct": provider, "nginx": nginx[0]}
    targets |= {name: f"{gateways[name].url}/anthropic" for name in ("plain", "recording")}
    rates = {name: load("rate", url, 100_000, 16, 5.0) for name, url in targets.items()}
    print("\n" + "  ".join(f"{name} {value:,.0f}/s" for name, value in rates.items()))
    gaps = gateways["recording"].metrics()["gaps_total"]
    print(f"recording: {gaps:.0f} gaps")
    assert rates["plain"] > 300


def cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def show(values: list[float]) -> str:
    return " + ".join(f"{value:.1f}" for value in values)
