"""OTLP export to an independent receiver: Arize Phoenix from PyPI, in its own environment.

python -m venv phoenix && phoenix/bin/pip install arize-phoenix
PHOENIX=phoenix/bin/phoenix make bench
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from compact import CompactConfig, CompactManager, CompactPolicy, OTLPExporter
from conversations import conversation
from receiver import eventually


@pytest.fixture
def phoenix(tmp_path: Path) -> Iterator[str]:
    binary = os.environ.get("PHOENIX")
    if not binary:
        pytest.skip("set PHOENIX to the phoenix command of an environment with arize-phoenix")
    ports = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    environment = {
        **os.environ, "PHOENIX_WORKING_DIR": str(tmp_path), "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(ports[0]), "PHOENIX_GRPC_PORT": str(ports[1]), "PYTHONPATH": "",
    }  # fmt: skip
    url = f"http://127.0.0.1:{ports[0]}"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([binary, "serve"], env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            try:
                httpx.get(f"{url}/healthz", timeout=1)
                break
            except httpx.HTTPError:
                assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
                time.sleep(0.2)
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.mark.req("P-TST-2")
def test_phoenix_stores_the_check_and_its_events(phoenix: str) -> None:
    """Phoenix stores one before_model_call span with gen_ai attributes and all events of the compaction."""
    exporter = OTLPExporter(f"{phoenix}/v1/traces")
    policy = CompactPolicy(hard_cap_buffer=300, keep_recent_turns=2, keep_tool_io_pairs=1)
    manager = CompactManager(CompactConfig("gpt-5", 6_000, policy=policy, exporter=exporter))
    manager.preflight("phoenix-1", conversation(60))
    assert exporter.flush(10)
    exporter.close()
    spans = eventually(lambda: httpx.get(f"{phoenix}/v1/projects/default/spans", timeout=10).json().get("data"), 30)
    (span,) = spans
    assert span["name"] == "before_model_call"
    assert span["attributes"]["gen_ai.conversation.id"] == "phoenix-1"
    names = [event["name"] for event in span["events"]]
    assert {"compact.token_estimate", "compact.trigger_decision", "compact.pruned_messages"} <= set(names)
