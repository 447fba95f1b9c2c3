"""The index finds the same whatever was searched before, by several threads, at a cost that grows slowly."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from builders import small_manager
from compact import CompactError
from compact.recall import PassageIndex, Source
from compact.recall import index as recall_index
from recall_builders import log_entry, search

from tests.growth import MAX_GROWTH, cost_s


def test_an_sqlite_without_fts5_is_a_clear_error(monkeypatch):
    monkeypatch.setattr(recall_index, "CREATE_WORDS", "CREATE VIRTUAL TABLE words USING missing_module(text)")
    with pytest.raises(CompactError, match="Recall needs SQLite with FTS5"):
        PassageIndex()


def test_searches_do_not_influence_each_other():
    sources = [Source(f"m{n}", "tool", f"row {n} has the value V-{n * 7} in table_{n % 9}\n" * 30) for n in range(80)]
    used, fresh = PassageIndex(), PassageIndex()
    for index in (used, fresh):
        index.add([Source(source.id, source.role, source.text) for source in sources])
    for number in range(30):
        search(used, f"V-{number * 7} table_{number % 9}")
    assert search(used, "value V-49 table_7") == search(fresh, "value V-49 table_7")


def test_threads_can_add_and_search_at_the_same_time():
    index = PassageIndex()

    def add_and_search(first: int) -> list[str]:
        best = []
        for number in range(first, 200, 4):
            index.add([Source(f"m{number}", "tool", f"row {number} has the value V-{number}\n" * 30)])
            best += search(index, f"V-{number}")[:1]
        return best

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(add_and_search, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert results == [[f"m{number}" for number in range(first, 200, 4)] for first in range(4)]


def test_the_cost_of_a_query_grows_slower_than_the_log():
    """Only words that most messages have are looked up in all of the log. Other words are rare, a name, or unknown."""

    def run(index: PassageIndex) -> None:
        for number in range(10):
            search(index, f"value V-{number * 7} of table_{number} in the ledger, unseen{number}")

    smaller, larger = (PassageIndex() for _ in range(2))
    for index, size in ((smaller, 500), (larger, 4_000)):
        index.add([Source(f"m{n}", "tool", log_entry(n)) for n in range(size)])
    # A factor of 8 would be linear. growth.py would allow 15 for three doublings.
    assert min(cost_s(run, larger) / cost_s(run, smaller) for _ in range(3)) < 2 * MAX_GROWTH


def test_the_cost_of_one_more_message_grows_slower_than_the_log():
    """The recall after a message indexes only that message."""

    def start_session(size: int) -> tuple[Any, list[dict[str, Any]]]:
        manager, messages = small_manager(window=100_000_000), [log_message(number) for number in range(size)]
        manager.preflight("s", messages)
        manager.recall("s", "ledger V-7")
        return manager, messages

    def recall_s(manager: Any, messages: list[dict[str, Any]]) -> float:
        messages.append(log_message(len(messages)))
        manager.preflight("s", messages)
        began = time.process_time()
        assert manager.recall("s", f"V-{(len(messages) - 1) * 7}")[0].is_in_prompt
        return time.process_time() - began

    smaller, larger = start_session(500), start_session(4_000)
    pairs = [(recall_s(*smaller), recall_s(*larger)) for _ in range(9)]
    shorter, longer = map(min, zip(*pairs, strict=True))
    assert longer < 2 * MAX_GROWTH * shorter


def log_message(number: int) -> dict[str, Any]:
    return {"role": "user" if number % 2 == 0 else "assistant", "content": log_entry(number)}
