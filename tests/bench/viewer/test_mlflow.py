"""Time to open 10,000 spans in MLflow and in Ariadne, in the same browser on the same machine.

python -m venv mlflow && mlflow/bin/pip install mlflow
MLFLOW=mlflow/bin/mlflow pytest -s tests/bench/viewer/test_mlflow.py
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
from bench.viewer.measurements import heap_mb, send_large_session
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]

COUNT = int(os.environ.get("BENCH_SPANS", "10000"))
START_TIMEOUT_S, OPEN_TIMEOUT_S = 180, 240


@pytest.fixture
def mlflow(tmp_path: Path) -> Iterator[str]:
    binary = os.environ.get("MLFLOW")
    if not binary:
        pytest.skip("set MLFLOW to the mlflow command of a separate environment")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    environment = {**os.environ, "PYTHONPATH": ""}
    command = [binary, "server", "--backend-store-uri", f"sqlite:///{tmp_path}/mlflow.db", "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--workers", "1"], cwd=tmp_path, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{address}/health", timeout=1).status_code == 200:
                    break
            except httpx.HTTPError:
                assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
            time.sleep(0.3)
        python = str(Path(binary).with_name("python"))
        script = str(Path(__file__).with_name("mlflow_spans.py"))
        result = subprocess.run(
            [python, script, address, str(COUNT)], env=environment, capture_output=True, text=True, check=True
        )
        experiment, trace = result.stdout.split()[-2:]
        yield f"{address}/#/experiments/{experiment}/traces?selectedEvaluationId={trace}"
    finally:
        # Stop its worker processes too, which are in the same process group.
        os.killpg(process.pid, 15)
        process.wait(timeout=30)


def describe_page(page: Page, began: float) -> str:
    seconds = time.perf_counter() - began
    nodes = page.evaluate("document.querySelectorAll('*').length")
    return f"{seconds:.2f} s, {nodes:,} nodes, {heap_mb(page):.0f} MB of heap"


def test_open_a_session_in_mlflow_and_ariadne(mlflow: str, server: Server, sign_in: SignIn, browser: Browser) -> None:
    name = send_large_session(server, COUNT, depth=2)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    began = time.perf_counter()
    page.goto(mlflow, wait_until="commit")
    page.get_by_text("call 0", exact=True).first.wait_for(timeout=OPEN_TIMEOUT_S * 1000)
    print(f"\nMLflow, {COUNT:,} spans: {describe_page(page, began)}")
    page.close()
    page = sign_in("operator", height=900)
    began = time.perf_counter()
    page.goto(f"/sessions/{name}/", wait_until="commit")
    page.get_by_test_id("span-row").first.wait_for()
    print(f"Ariadne, {COUNT:,} spans: {describe_page(page, began)}")
