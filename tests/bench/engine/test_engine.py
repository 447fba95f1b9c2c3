"""Benchmarks of the engine. The results are in README.md.

All times are CPU times of this process.

make bench    or    python -m pytest tests/bench/engine -q -s
"""

from __future__ import annotations

import gc
import json
import lzma
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from compact import CompactConfig, CompactManager, TiktokenEstimator
from compact.estimators.encodings import load_counter, load_encoding
from compact.messages.codecs import get_codec
from compact.summarizers.read_ahead import READ_AHEAD

CHAT = get_codec("chat")
TRANSCRIPTS = Path(os.environ.get("COMPACT_TRANSCRIPTS", "../shared/data/transcripts"))
WORDS = [f"{a}{b}" for a in ("deploy", "parse", "order", "cache", "table") for b in ("", "r", "s", "_id", ".py", "-17")]


def history(turns: int, words: int, *, seed: int = 0) -> list[dict]:
    random_ = random.Random(turns + seed)
    text = lambda: " ".join(random_.choice(WORDS) for _ in range(words))  # noqa: E731
    items = [{"role": "system", "content": text()}]
    for turn in range(turns):
        function = {"name": "read", "arguments": json.dumps({"path": f"src/module_{turn}.py"})}
        items += [
            {"role": "user", "content": text()},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{turn}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"c{turn}", "content": text()},
            {"role": "assistant", "content": text()},
        ]
    return items


def manager_for(window: int, **options) -> CompactManager:
    return CompactManager(CompactConfig("gpt-5", window, **options))


def test_preflight_with_one_new_message():
    """1,000 turns with 4,000 messages. The goal is a median below 0.5 ms, the requirement is 10 ms."""
    assert measure_new_messages(history(1000, 14)) < 10


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="COMPACT_TRANSCRIPTS is not a directory")
def test_preflight_of_recorded_sessions_with_one_new_message():
    """Recorded sessions of 128k tokens. Their messages are longer, so there are fewer of them."""
    for items in concatenate_to(128_000, TiktokenEstimator()):
        measure_new_messages(items)


def measure_new_messages(items: list[dict]) -> float:
    """Print and return the median milliseconds of a preflight with one more message."""
    manager = manager_for(1_000_000)
    manager.preflight("s", items)
    size, times = len(items), []
    for number in range(200):
        items.append({"role": "user" if number % 2 == 0 else "assistant", "content": f"message {number} " * 5})
        start = time.process_time()
        manager.preflight("s", items)
        times.append((time.process_time() - start) * 1000)
    tokens, median = manager.remember("s").tokens, statistics.median(times)
    print(
        f"\npreflight, one new message after {size:,} with {tokens:,} tokens: median {median:.3f} ms, "
        f"p95 {sorted(times)[190]:.3f} ms"
    )
    return median


def test_cold_count_against_raw_tiktoken():
    """Counting every message once. The goal is at most 1.1 times the cost of the tokenizer."""
    messages = [CHAT.decode(item, 0) for item in history(1000, 14)]
    encode = load_encoding("o200k_base").encode_ordinary
    ratios = []
    for _ in range(5):
        start = time.process_time()
        for message in messages:
            encode(message.text)
            for call in message.tool_calls:
                encode(call.name)
                encode(call.arguments)
        raw = time.process_time() - start
        start = time.process_time()
        TiktokenEstimator().estimate(messages, "gpt-5")
        ratios.append((time.process_time() - start) / raw)
    print(f"\ncold count: {statistics.median(ratios):.2f} x raw tiktoken")


def test_full_offline_compaction():
    """Cold compaction of 128k tokens with the built-in summarizer. The goal is less than 200 ms."""
    report("full compaction of 1,000 turns", [history(1000, 16, seed=number) for number in range(7)])


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="COMPACT_TRANSCRIPTS is not a directory")
def test_full_offline_compaction_of_recorded_sessions():
    """Cold compaction of recorded sessions, concatenated to 128k tokens."""
    report("full compaction of 128k recorded tokens", concatenate_to(128_000, TiktokenEstimator()))


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="COMPACT_TRANSCRIPTS is not a directory")
def test_compaction_of_recorded_sessions_that_grew_call_by_call():
    """The same histories, passed in 60 calls. From half of the trigger on, a thread reads the messages ahead."""
    load_counter("o200k_base")
    histories = concatenate_to(128_000, TiktokenEstimator())
    columns = zip(*(run_in_new_process(measure_growing_session, items) for items in histories), strict=True)
    print(f"\n{len(histories)} recorded sessions of 128k tokens that grew call by call")
    for name, column in zip(("60 preflights", "reading ahead", "compaction"), columns, strict=True):
        print(f"  {name}: median {statistics.median(column):.0f} ms, from {min(column):.0f} to {max(column):.0f} ms")


def measure_growing_session(items: list[dict]) -> list[float]:
    """Return the milliseconds of all preflights, of the thread that reads ahead, and of the compaction."""
    manager = manager_for(200_000)
    thread_start, start = time.thread_time(), time.process_time()
    for size in range(1, len(items), max(1, len(items) // 60)):
        manager.preflight("s", items[:size])
        READ_AHEAD.wait(10)
    preflights = time.thread_time() - thread_start
    compacting = time.process_time()
    manager.manual_compact("s", items)
    end = time.process_time()
    return [preflights * 1000, (compacting - start - preflights) * 1000, (end - compacting) * 1000]


def report(title: str, histories: list[list[dict]]) -> None:
    """Measure the first compaction of each history in a new process, and a second one by another manager there."""
    load_counter("o200k_base")
    times = [run_in_new_process(measure_twice, items) for items in histories]
    start = time.process_time()
    sum(i * i for i in range(3_000_000))
    squares = time.process_time() - start
    print(f"\n{title}, {len(histories)} histories; a loop of three million squares takes {squares:.2f} s")
    for name, column in zip(("preflight before it", "cold", "the same again"), zip(*times, strict=True), strict=True):
        print(f"  {name}: median {statistics.median(column):.0f} ms, from {min(column):.0f} to {max(column):.0f} ms")


def run_in_new_process(measure: Callable[[list[dict]], list[float]], items: list[dict]) -> list[float]:
    read_end, write_end = os.pipe()
    # Keep the garbage collector of the child from visiting the other histories.
    gc.freeze()
    child = os.fork()
    if child == 0:
        try:
            os.write(write_end, json.dumps(measure(items)).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as file:
        times = json.load(file)
    os.waitpid(child, 0)
    return times


def measure_twice(items: list[dict]) -> list[float]:
    """Return the milliseconds of counting, of a cold compaction, and of a second compaction of the same texts."""
    return [*measure_compaction(items), measure_compaction(items)[1]]


def measure_compaction(items: list[dict]) -> list[float]:
    manager = manager_for(1_000_000)
    start = time.process_time()
    manager.preflight("s", items[:-1])
    counted = time.process_time()
    manager.manual_compact("s", items)
    return [(counted - start) * 1000, (time.process_time() - counted) * 1000]


def concatenate_to(tokens: int, estimator: TiktokenEstimator) -> list[list[dict]]:
    """Return histories of recorded sessions. Each ends before the message that exceeds `tokens`."""
    histories: list[list[dict]] = []
    current: list[dict] = []
    used = 0
    for path in sorted(TRANSCRIPTS.rglob("*.jsonl.xz")):
        with lzma.open(path, "rt") as file:
            for line in file:
                for item in json.loads(line).get("messages", ()):
                    used += estimator.count_message(CHAT.decode(item, 0), "gpt-5")
                    if used > tokens and item["role"] != "tool":
                        histories.append(current)
                        current, used = [], 0
                        break
                    current.append(item)
                if len(histories) == 12:
                    return histories
    return histories


@pytest.mark.parametrize("thousand_tokens", [1, 10, 100, 1000])
def test_growth(thousand_tokens):
    """From 1k to 1M tokens: cold preflight, warm preflight and compaction grow linearly."""
    items = history(max(2, thousand_tokens * 8), 14)
    load_counter("o200k_base")
    manager = manager_for(10_000_000)
    start = time.process_time()
    manager.preflight("s", items[:-1])
    cold = time.process_time() - start
    start = time.process_time()
    manager.preflight("s", items)
    warm = time.process_time() - start
    start = time.process_time()
    manager.manual_compact("s", items)
    whole = time.process_time() - start
    size = manager.plan("s").original_token_count if manager.plan("s") else manager.remember("s").tokens
    print(
        f"\n{size:>9,} tokens: cold {cold * 1000:8.1f} ms ({cold / size * 1e6:5.2f} us/token), "
        f"warm {warm * 1000:6.2f} ms, compaction {whole * 1000:8.1f} ms ({whole / size * 1e6:5.2f} us/token)"
    )
