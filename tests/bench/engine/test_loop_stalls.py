"""The longest stall of the event loop in calls that a compaction is no part of. The results are in README.md.

A probe task wakes up every millisecond. Its longest gap is measured in wall time and in CPU time of this process, next
to a thread that only counts: that much any busy thread costs. Each case runs a few times, and the median counts.

python -m pytest tests/bench/engine/test_loop_stalls.py -q -s
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from compact import CompactConfig, CompactManager

from tests.bench.engine.test_event_loop import tick

LIMIT_MS = 25
ROUNDS = 5
IMAGE_BYTES = 6_000_000
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x04\x00\x00\x00\x03\x00"


class Stall(NamedTuple):
    """The longest gap of the probe during a call."""

    wall_ms: float
    cpu_ms: float


async def stall_during(call: Callable[[], Awaitable[Any]]) -> Stall:
    wall_ms: list[float] = []
    cpu_ms: list[float] = []
    gc.collect()
    gc.freeze()
    probe = asyncio.create_task(tick(wall_ms, cpu_ms))
    await asyncio.sleep(0.01)
    wall_ms.clear()
    cpu_ms.clear()
    await call()
    await asyncio.sleep(0.003)
    probe.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await probe
    gc.unfreeze()
    return Stall(max(wall_ms), max(cpu_ms))


def image(number: int) -> dict[str, Any]:
    """Return a part with a PNG of 6 MB. No two are equal."""
    raw = PNG + random.Random(number).randbytes(IMAGE_BYTES)
    url = "data:image/png;base64," + base64.b64encode(raw).decode()
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


def long_history(count: int) -> list[dict[str, Any]]:
    return [
        {"role": ("user", "assistant")[number % 2], "content": f"Message {number} about src/module_{number}.py: done."}
        for number in range(count)
    ]


def new_manager() -> CompactManager:
    return CompactManager(CompactConfig("gpt-5", 10_000_000))


async def images() -> Stall:
    messages, manager = [image(number) for number in range(20)], new_manager()
    return await stall_during(lambda: manager.apreflight("s", messages))


async def one_more_image() -> Stall:
    messages, manager = [image(number) for number in range(20)], new_manager()
    await manager.apreflight("s", messages[:-1])
    return await stall_during(lambda: manager.apreflight("s", messages))


async def edited_history() -> Stall:
    history, manager = long_history(10_001), new_manager()
    await manager.apreflight("s", history)
    history[5_000] = {**history[5_000], "content": "edited"}
    return await stall_during(lambda: manager.apreflight("s", history))


async def trimmed_history() -> Stall:
    history, manager = long_history(10_001), new_manager()
    await manager.apreflight("s", history)
    return await stall_during(lambda: manager.apreflight("s", history[2_000:]))


async def langchain_history() -> Stall:
    from langchain_core.messages import AIMessage, HumanMessage

    kinds = (HumanMessage, AIMessage)
    messages = [kinds[number % 2](item["content"]) for number, item in enumerate(long_history(5_000))]
    manager = new_manager()
    return await stall_during(lambda: manager.apreflight("s", messages))


async def long_message() -> Stall:
    text = "\n".join(
        f"Line {number} of the log: request {number * 7} took {number % 97} ms" for number in range(100_000)
    )
    messages, manager = [{"role": "user", "content": text}], new_manager()
    return await stall_during(lambda: manager.apreflight("s", messages))


async def first_recall() -> Stall:
    manager = new_manager()
    await manager.apreflight("s", long_history(10_001))
    return await stall_during(lambda: manager.arecall("s", "what was done in module_517"))


async def next_recall() -> Stall:
    manager = new_manager()
    await manager.apreflight("s", long_history(10_001))
    await manager.arecall("s", "module_1")
    return await stall_during(lambda: manager.arecall("s", "what was done in module_517"))


async def counting_thread() -> Stall:
    """The control: a thread that runs Python for 200 ms."""

    def count() -> None:
        end = time.perf_counter() + 0.2
        while time.perf_counter() < end:
            pass

    return await stall_during(lambda: asyncio.to_thread(count))


CASES = [
    counting_thread,
    images,
    one_more_image,
    edited_history,
    trimmed_history,
    langchain_history,
    long_message,
    first_recall,
    next_recall,
]


@pytest.mark.req("A-ASY-1")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_longest_stall(case: Callable[[], Awaitable[Stall]]) -> None:
    await new_manager().warm_up()
    stalls = [await case() for _ in range(ROUNDS)]
    wall_ms, cpu_ms = (statistics.median(values) for values in zip(*stalls, strict=True))
    print(f"\n{case.__name__}: longest stall {wall_ms:.1f} ms, own CPU time {cpu_ms:.1f} ms, medians of {ROUNDS} runs")
    assert cpu_ms < LIMIT_MS
