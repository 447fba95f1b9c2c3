"""Questions as people ask them of real agent logs, beside plain BM25 and plain FTS5 in the same run.

`questions.jsonl` names the messages that answer each question. Every second question is held out: no rule or weight was
chosen with it. The recorded sessions are not part of the repository, and without them the benchmark is skipped.

python -m pytest tests/bench/recall -q -s
"""

from __future__ import annotations

import json
import lzma
import math
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compact.messages.codecs import get_codec
from compact.recall import PassageIndex, Source
from compact.recall.sections import searchable_text

TRANSCRIPTS = Path(os.environ.get("COMPACT_TRANSCRIPTS", "../shared/data/transcripts"))
QUESTIONS = Path(__file__).with_name("questions.jsonl")
Ask = Callable[[str], list[set[int]]]


def read_session(name: str) -> list[dict[str, Any]]:
    source, _, session = name.partition("/")
    with lzma.open(TRANSCRIPTS / f"{source}.jsonl.xz", "rt") as lines:
        documents = map(json.loads, lines)
        return next(document["messages"] for document in documents if document["id"] == session)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def recall(texts: list[str], roles: list[str]) -> Ask:
    index = PassageIndex()
    pairs = enumerate(zip(roles, texts, strict=True))
    index.add([Source(f"m{n}", role, text) for n, (role, text) in pairs if role != "system"])

    def ask(question: str) -> list[set[int]]:
        passages = index.search(question, limit=5, max_tokens=2_000, count_tokens=lambda text: len(text) // 4)
        return [{int(passage.message_id[1:])} for passage in passages]

    return ask


def bm25(texts: list[str], _: list[str]) -> Ask:
    counts = [Counter(words(text)) for text in texts]
    frequency = Counter(word for count in counts for word in count)
    mean = sum(map(Counter.total, counts)) / len(counts)

    def score(question: str, count: Counter[str]) -> float:
        norm = 1.5 * (0.25 + 0.75 * count.total() / mean)
        weights = {w: math.log((len(texts) - frequency[w] + 0.5) / (frequency[w] + 0.5) + 1) for w in words(question)}
        return sum(weight * count[word] * 2.5 / (count[word] + norm) for word, weight in weights.items())

    def ask(question: str) -> list[set[int]]:
        scores = [score(question, count) for count in counts]
        return [{number} for number in sorted(range(len(texts)), key=lambda number: -scores[number])[:5]]

    return ask


def fts5(texts: list[str], _: list[str]) -> Ask:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE messages USING fts5(text, tokenize='porter')")
    database.executemany("INSERT INTO messages(rowid, text) VALUES (?, ?)", enumerate(texts, 1))
    statement = "SELECT rowid - 1 FROM messages WHERE messages MATCH ? ORDER BY rank LIMIT 5"

    def ask(question: str) -> list[set[int]]:
        return [{row} for (row,) in database.execute(statement, (" OR ".join(f'"{w}"' for w in words(question)),))]

    return ask


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="COMPACT_TRANSCRIPTS is not a directory")
def test_questions_of_people():
    """The message itself must be found. A message next to it in a passage does not count."""
    questions = [json.loads(line) for line in QUESTIONS.read_text().splitlines()]
    hits: Counter[tuple[str, bool, str]] = Counter()
    codec = get_codec("chat")
    for name in dict.fromkeys(question["session"] for question in questions):
        messages = [codec.decode(item, number) for number, item in enumerate(read_session(name))]
        texts, roles = [searchable_text(message) for message in messages], [message.role for message in messages]
        for engine in (recall, bm25, fts5):
            ask = engine(texts, roles)
            for question in (question for question in questions if question["session"] == name):
                results, answers = ask(question["question"]), set(question["answers"])
                key = (engine.__name__, question["held_out"])
                hits[*key, "hit@1"] += bool(results and results[0] & answers)
                hits[*key, "hit@5"] += any(result & answers for result in results)
    for held_out in (False, True):
        total = sum(question["held_out"] is held_out for question in questions)
        for engine in (recall, bm25, fts5):
            shares = [100 * hits[engine.__name__, held_out, figure] / total for figure in ("hit@1", "hit@5")]
            kind = "held out" if held_out else "known"
            print(f"\n  {kind} ({total}), {engine.__name__}: hit@1 {shares[0]:.1f}, hit@5 {shares[1]:.1f}", end="")
    totals = {
        engine.__name__: sum(hits[engine.__name__, held_out, "hit@5"] for held_out in (False, True))
        for engine in (recall, bm25, fts5)
    }
    # With 26 questions, a difference of one means nothing.
    assert totals["recall"] >= max(totals.values()) - 1
