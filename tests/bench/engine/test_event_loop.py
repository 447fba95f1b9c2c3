"""Lag of the event loop while `apreflight` compacts 128k recorded tokens. The results are in README.md.

Two figures per tick: the wall time by which it came late, and the CPU time that this process used until then. On a busy
machine the first also contains the time of other processes, so only the second is compared with the limit.

A full garbage collection stops all threads, for 0.5 ms per thousand objects of the process. What exists before the
first compaction, such as the test framework, is frozen, and the longest collection is printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from typing import Any

import pytest
from compact import CompactConfig, CompactManager, TiktokenEstimator

from tests.bench.engine.test_engine import TRANSCRIPTS, concatenate_to

TICK_S = 0.001
LIMIT_MS = 25


async def tick(wall_ms: list[float], cpu_ms: list[float]) -> None:
    while True:
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(TICK_S)
        wall_ms.append((time.perf_counter() - wall - TICK_S) * 1000)
        cpu_ms.append((time.process_time() - cpu) * 1000)


class LongestCollection:
    """Measures the longest run of the garbage collector, in CPU time."""

    def __init__(self) -> None:
        self.ms = 0.0
        self._started = 0.0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._started = time.process_time()
        else:
            self.ms = max(self.ms, (time.process_time() - self._started) * 1000)


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


@pytest.mark.req("K-ASY-1")
@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="COMPACT_TRANSCRIPTS is not a directory")
async def test_event_loop_lag_during_a_compaction():
    """Each history is compacted for the first time, while a task ticks every millisecond."""
    histories = concatenate_to(128_000, TiktokenEstimator())
    manager = CompactManager(CompactConfig("gpt-5", 128_000))
    await manager.warm_up()
    wall_ms: list[float] = []
    cpu_ms: list[float] = []
    collection = LongestCollection()
    gc.callbacks.append(collection)
    gc.freeze()
    ticker = asyncio.create_task(tick(wall_ms, cpu_ms))
    for number, items in enumerate(histories):
        before = len(cpu_ms)
        await manager.amanual_compact(f"session-{number}", items)
        assert len(cpu_ms) > before
    ticker.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await ticker
    gc.unfreeze()
    gc.callbacks.remove(collection)
    print(
        f"\nevent loop during {len(histories)} compactions, {len(wall_ms)} ticks: "
        f"lag p50 {sorted(wall_ms)[len(wall_ms) // 2]:.1f} ms, p99 {p99(wall_ms):.1f} ms, max {max(wall_ms):.1f} ms; "
        f"own CPU p99 {p99(cpu_ms):.1f} ms, max {max(cpu_ms):.1f} ms, garbage collection max {collection.ms:.1f} ms"
    )
    assert p99(cpu_ms) < LIMIT_MS
