"""The cost of an event to the agent, compared with OpenTelemetry's BatchSpanProcessor in one run.

Both get the same load: a loop with a little work between events, then one at full speed. The receiver is up, slow,
hanging or dead. `make bench` prints the table.
"""

from __future__ import annotations

import gc
import logging
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from compact.exporters import AriadneExporter
from receiver import Answer, Receiver

PACED, FULL_SPEED = 4_000, 20_000
PROPERTIES = {
    "model": "gpt-5", "t_est": 108_800, "max_tokens": 128_000, "usage_pct": 0.85, "turn": 12, "source": "estimate",
    "breakdown": {"system": 900, "developer": 100, "tools_schema": 2_400, "memory": 4_000, "history": 101_000,
                  "user_input": 400},
}  # fmt: skip


@dataclass
class Result:
    p50: float
    p99: float
    p999: float
    lost: int
    exit_s: float
    growth_mb: float


def event(number: int) -> dict[str, Any]:
    return {
        "ts": "2026-11-16T04:00:00.000000Z", "session_id": "bench", "event": "compact.token_estimate",
        "trace_id": "0" * 31 + "1", "span_id": f"{number:016x}", "parent_id": "0" * 16,
        "started_at": "2026-11-16T04:00:00.000000Z", "ended_at": "2026-11-16T04:00:00.001000Z", "status": "ok",
        "properties": PROPERTIES,
    }  # fmt: skip


def attributes() -> dict[str, Any]:
    """Return the properties as flat OpenTelemetry attributes."""
    flat = {f"compact.{key}": value for key, value in PROPERTIES.items() if not isinstance(value, dict)}
    breakdown: dict[str, int] = PROPERTIES["breakdown"]  # type: ignore[assignment]
    return flat | {f"compact.breakdown.{key}": value for key, value in breakdown.items()}


@contextmanager
def run_receiver(mode: str) -> Iterator[tuple[str, Receiver]]:
    with Receiver() as receiver:
        if mode == "slow":
            receiver.answers = [Answer(wait=lambda: time.sleep(0.2))]
        elif mode == "hanging":
            receiver.answers = [receiver.hang()]
        yield ("http://127.0.0.1:9" if mode == "dead" else receiver.url), receiver


def measure(emit: Callable[[int], None]) -> list[float]:
    clock = time.perf_counter
    durations: list[float] = []
    for number in range(PACED):
        started = clock()
        emit(number)
        durations.append((clock() - started) * 1e6)
        # About 20 µs of work between events.
        sum(range(1_000))
    return sorted(durations)


def quantiles(durations: list[float]) -> tuple[float, float, float]:
    count = len(durations)
    return statistics.median(durations), durations[int(count * 0.99)], durations[int(count * 0.999)]


def measure_ariadne(mode: str, spool: Path) -> Result:
    with run_receiver(mode) as (url, receiver):
        exporter = AriadneExporter(url, "key", spool_dir=spool)
        exporter.emit(event(0))
        exporter.flush(0.5)
        events = [event(number) for number in range(PACED + FULL_SPEED)]
        gc.collect()
        memory = psutil.Process().memory_info().rss
        p50, p99, p999 = quantiles(measure(lambda number: exporter.emit(events[number])))
        for number in range(PACED, PACED + FULL_SPEED):
            exporter.emit(events[number])
        if mode in ("up", "slow"):
            exporter.flush(60)
        stats = exporter.stats()
        started = time.perf_counter()
        exporter.close()
        exit_s = time.perf_counter() - started
        growth = (psutil.Process().memory_info().rss - memory) / 1e6
        if mode == "up":
            assert len(receiver.events) == PACED + FULL_SPEED + 1
    return Result(p50, p99, p999, stats["dropped"], exit_s, growth)


def measure_opentelemetry(mode: str) -> Result:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    with run_receiver(mode) as (url, _):
        exported = 0

        class CountingExporter(OTLPSpanExporter):
            def export(self, spans: Any) -> Any:
                nonlocal exported
                result = super().export(spans)
                exported += len(spans) if result.name == "SUCCESS" else 0
                return result

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(CountingExporter(f"{url}/v1/traces", timeout=2)))
        tracer = provider.get_tracer("bench")
        span_attributes = attributes()

        def emit(number: int) -> None:
            tracer.start_span("compact.token_estimate", attributes=span_attributes).end()

        gc.collect()
        memory = psutil.Process().memory_info().rss
        p50, p99, p999 = quantiles(measure(emit))
        for number in range(FULL_SPEED):
            emit(number)
        if mode in ("up", "slow"):
            provider.force_flush(30_000)
        started = time.perf_counter()
        provider.shutdown()
        exit_s = time.perf_counter() - started
        growth = (psutil.Process().memory_info().rss - memory) / 1e6
    return Result(p50, p99, p999, PACED + FULL_SPEED - exported, exit_s, growth)


@pytest.mark.req("S-ARI-1")
def test_event_costs_at_most_a_fifth_of_opentelemetry(tmp_path: Path) -> None:
    """The median is at most a fifth, p99 is under 50 µs, and no event is lost while the server is up."""
    rows = [(f"Ariadne, {mode}", measure_ariadne(mode, tmp_path / mode)) for mode in ("up", "slow", "hanging", "dead")]
    rows += [(f"OpenTelemetry, {mode}", measure_opentelemetry(mode)) for mode in ("up", "dead")]
    print(f"\n{'':24}{'p50 µs':>9}{'p99 µs':>9}{'p99.9 µs':>10}{'lost':>8}{'exit s':>8}{'RSS +MB':>9}")
    for name, result in rows:
        print(
            f"{name:24}{result.p50:9.2f}{result.p99:9.1f}{result.p999:10.1f}{result.lost:8d}{result.exit_s:8.2f}"
            f"{result.growth_mb:9.1f}"
        )
    results = dict(rows)
    assert results["Ariadne, up"].lost == 0
    assert results["Ariadne, up"].p50 <= results["OpenTelemetry, up"].p50 / 5
    for mode in ("up", "slow", "hanging", "dead"):
        assert results[f"Ariadne, {mode}"].p50 < 10
        assert results[f"Ariadne, {mode}"].p99 < 50
        assert results[f"Ariadne, {mode}"].exit_s < 3
