"""Compare the OTLP throughput of Ariadne, Arize Phoenix and MLflow with the same spans.

    python tests/bench/ingest/peers.py            # creates a temporary environment of some hundred megabytes

Measures stored spans, not acknowledged ones: the clock stops when the database has all spans. Each peer uses its
default storage (SQLite). Ariadne uses its embedded Postgres.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from load import BATCH, send  # noqa: E402
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: E402

SENDERS = 4


def requests(count: int) -> list[bytes]:
    """Return OTLP requests with a hundred spans each, ten for each trace, and about 600 bytes of attributes."""
    result = []
    for _ in range(count):
        request = ExportTraceServiceRequest()
        spans = request.resource_spans.add().scope_spans.add().spans
        for number in range(BATCH):
            if number % 10 == 0:
                trace_id, root = uuid.uuid4().bytes, uuid.uuid4().bytes[:8]
            span = spans.add(
                trace_id=trace_id,
                span_id=root if number % 10 == 0 else uuid.uuid4().bytes[:8],
                parent_span_id=b"" if number % 10 == 0 else root,
                name="chat gpt-5",
                start_time_unix_nano=time.time_ns() - 10**9,
                end_time_unix_nano=time.time_ns(),
            )
            for key, value in {
                "openinference.span.kind": "LLM",
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "gpt-5",
                "session.id": trace_id.hex(),
                "input.value": "Compare the open files with the plan and continue with the next step. " * 3,
                "output.value": "Looked at them; two differ. " * 4,
            }.items():
                span.attributes.add(key=key).value.string_value = value
            span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 1000 + number
        result.append(request.SerializeToString())
    return result


def measure(name: str, url: str, headers: dict[str, str], count: int, count_stored: Callable[[], int]) -> None:
    headers = {**headers, "Content-Type": "application/x-protobuf"}
    work = [requests(max(1, count // BATCH // SENDERS)) for _ in range(SENDERS)]
    target = count_stored() + sum(map(len, work)) * BATCH
    began = time.perf_counter()
    run = send(url, headers, work, path="/v1/traces")
    while count_stored() < target and time.perf_counter() - began < 300:
        time.sleep(0.05)
    duration_s = time.perf_counter() - began
    lost = max(0, target - count_stored())
    print(
        f"{name:>8}: {run.events / duration_s:>8,.0f} stored/s  acknowledged {run.rate:>8,.0f}/s"
        f"  p50 {run.percentile(0.5):.0f} ms  p99 {run.percentile(0.99):.0f} ms  rejected {run.failures}  lost {lost}",
        flush=True,
    )


@contextlib.contextmanager
def server_process(command: list[str], environment: dict[str, str], port: int, log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 180
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
                break
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(log.read_text()[-2000:])
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def count_rows(database: Path, query: str) -> int:
    with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(database)) as connection:
        return int(connection.execute(query).fetchone()[0])
    return 0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def ariadne(folder: Path, count: int) -> None:
    import psycopg

    from tests.live_server import run_server

    with (
        run_server(folder / "ariadne", ARIADNE_INGEST_KEY_EVENTS_PER_S="0") as server,
        psycopg.connect(server.database_url, autocommit=True) as connection,
    ):

        def count_stored() -> int:
            (total,) = connection.execute("SELECT coalesce(sum(span_count), 0) FROM ingest_session").fetchone() or (0,)
            return int(total)

        measure("ariadne", server.url, server.headers, count, count_stored)


def phoenix(python: Path, folder: Path, count: int) -> None:
    port = free_port()
    environment = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with server_process([str(python), "-m", "phoenix.server.main", "serve"], environment, port, folder / "phoenix.log"):
        measure(
            "phoenix",
            f"http://127.0.0.1:{port}",
            {},
            count,
            lambda: count_rows(folder / "phoenix.db", "SELECT count(*) FROM spans"),
        )


def mlflow(python: Path, folder: Path, count: int) -> None:
    port, database = free_port(), folder / "mlflow.db"
    command = [
        str(python),
        "-m",
        "mlflow",
        "server",
        "--port",
        str(port),
        "--backend-store-uri",
        f"sqlite:///{database}",
    ]
    with server_process(command, {"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}"}, port, folder / "mlflow.log"):
        headers = {"x-mlflow-experiment-id": "0"}
        measure(
            "mlflow",
            f"http://127.0.0.1:{port}",
            headers,
            count,
            lambda: count_rows(database, "SELECT count(*) FROM spans"),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=4_000, help="spans for each peer (Ariadne gets ten times as many)")
    parser.add_argument(
        "--environment", type=Path, help="virtual environment for the peers, created if it does not exist"
    )
    options: Any = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = options.environment or folder / "peers"
        python = environment / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "-q", "arize-phoenix", "mlflow"], check=True)
        ariadne(folder, options.spans * 10)
        phoenix(python, folder, options.spans)
        mlflow(python, folder, options.spans)


if __name__ == "__main__":
    main()
