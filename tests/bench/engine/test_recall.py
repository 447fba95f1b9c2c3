"""Benchmark of recall: the index and the queries of a session with a million tokens, side by side with plain FTS5.

All times are CPU times of this process. The share of lost facts that a recall finds is measured by
`bench/quality/run_recall.py` of the shared folder, with `floor="newest"` in its policy.

python -m pytest tests/bench/engine/test_recall.py -q -s
"""

from __future__ import annotations

import json
import lzma
import os
import re
import sqlite3
import statistics
import time
from pathlib import Path

import pytest
from compact import CompactConfig, CompactManager
from compact.estimators.encodings import load_counter
from compact.messages.codecs import get_codec
from compact.recall import PassageIndex, Source, words_of
from compact.recall.sections import searchable_text, split_text

TRANSCRIPTS = Path(os.environ.get("COMPACT_TRANSCRIPTS", "../shared/data/transcripts"))
MAX_CHARS = 4_200_000
CHAT = get_codec("chat")


def recorded_messages() -> list[dict]:
    messages: list[dict] = []
    chars = 0
    for path in sorted(TRANSCRIPTS.glob("*.jsonl.xz")):
        with lzma.open(path, "rt") as lines:
            for line in lines:
                for message in json.loads(line)["messages"]:
                    if message["role"] in ("user", "assistant"):
                        messages.append({"role": message["role"], "content": str(message.get("content") or "")})
                        chars += len(messages[-1]["content"])
                if chars > MAX_CHARS:
                    return messages
    return messages


def queries_from(texts: list[str]) -> list[str]:
    """Return the words of a step and of a later one, 800 characters as in the measure of lost facts."""
    long = [text for text in texts if len(text) > 1_000]
    return [text[200:700] + " " + other[:300] for text, other in zip(long[::9], long[4::9], strict=False)][:200]


def report(name: str, index_ms: float, times: list[float]) -> None:
    p95 = sorted(times)[int(0.95 * len(times))]
    print(f"  {name}: index {index_ms:.0f} ms, query median {statistics.median(times):.2f} ms, p95 {p95:.2f} ms")


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="COMPACT_TRANSCRIPTS is not a directory")
def test_recall_against_plain_fts5():
    """The goals are 2 ms a query, and an index that costs at most a tenth of a preflight."""
    items = recorded_messages()
    texts = [searchable_text(CHAT.decode(item, 0)) for item in items]
    queries = queries_from(texts)
    count = load_counter("o200k_base")
    manager = CompactManager(CompactConfig("gpt-5", 100_000_000))
    start = time.process_time()
    manager.preflight("s", items)
    preflight_ms = (time.process_time() - start) * 1000
    print(f"\n{len(items):,} messages, {sum(map(len, texts)):,} characters, preflight {preflight_ms:.0f} ms")

    start = time.process_time()
    index = PassageIndex()
    index.add([Source(f"m{number}", "user", text) for number, text in enumerate(texts)])
    index_ms = (time.process_time() - start) * 1000
    known = {word for text in texts[-40:] for word in words_of(text)}
    visible = {f"m{number}" for number in range(len(texts) - 40, len(texts))}
    times = []
    for query in queries:
        start = time.process_time()
        index.search(query, limit=5, max_tokens=2_000, count_tokens=count, visible=visible, known_words=known)
        times.append((time.process_time() - start) * 1000)
    report(f"recall ({index_ms / preflight_ms:.0%} of the preflight)", index_ms, times)

    start = time.process_time()
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE passages USING fts5(text)")
    passages = [(text[first:last],) for text in texts for first, last in split_text(text, 900)]
    database.executemany("INSERT INTO passages VALUES (?)", passages)
    index_ms = (time.process_time() - start) * 1000
    times = []
    for query in queries:
        start = time.process_time()
        words = [word for word in dict.fromkeys(re.findall(r"\w+", query.lower())) if len(word) > 2][:40]
        expression = " OR ".join(f'"{word}"' for word in words)
        database.execute(
            "SELECT text FROM passages WHERE passages MATCH ? ORDER BY bm25(passages) LIMIT 5", (expression,)
        ).fetchall()
        times.append((time.process_time() - start) * 1000)
    report("plain FTS5 over passages of 900 characters", index_ms, times)
