"""Recall: nothing that a session has contained is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from builders import Recorder, small_manager
from compact import CompactError, Message
from compact.estimators.encodings import load_counter
from compact.recall import index as recall_index
from compact.summary.structured_summary import StructuredSummary
from recall_builders import SECRET, compacted_manager, history, texts


@pytest.mark.req("A-REC-1")
def test_a_removed_message_is_found_with_its_place():
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    best, *_ = manager.recall("s", "ORD-4471")
    assert "dock 12" in best.text
    assert best.message_id.startswith("m")
    assert (best.role, best.turn) in {("user", 1), ("tool", 1)}
    assert best.time is not None and best.score > 0


@pytest.mark.parametrize(
    "query",
    ["src/billing/invoiceTotals.py", "billing/invoiceTotals.py", "invoiceTotals", "invoice totals", "TOTALS.PY"],
)
def test_identifiers_and_paths_are_found_whole_and_by_their_parts(query):
    manager = compacted_manager("The rounding bug is in src/billing/invoiceTotals.py.")
    assert "rounding bug" in manager.recall("s", query)[0].text


def test_exact_ids_come_first():
    others = [f"The ticket ABC-{number} about the order of dock {number} is open." for number in range(100, 140)]
    manager = small_manager(window=100_000)
    manager.preflight("s", [{"role": "user", "content": text} for text in others])
    assert "ABC-123 " in manager.recall("s", "which dock has the open ticket ABC-123?")[0].text


def test_limits_are_kept():
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    count = manager._engine.counter.count_text
    passages = manager.recall("s", "question answer module word ORD-4471", limit=3, max_tokens=200)
    assert 1 <= len(passages) <= 3
    assert sum(count(passage.text) for passage in passages) <= 200
    assert [passage.score for passage in passages] == sorted((passage.score for passage in passages), reverse=True)


@pytest.mark.parametrize("value", [0, -1, 1.5, float("inf"), float("nan"), None, "5"])
@pytest.mark.parametrize("name", ["limit", "max_tokens"])
def test_a_limit_that_is_no_positive_whole_number_is_rejected(name, value):
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    with pytest.raises(CompactError, match="positive whole numbers"):
        manager.recall("s", "ORD-4471", **{name: value})


@pytest.mark.parametrize("value", [2**31, 2**64, 10**30])
@pytest.mark.parametrize("name", ["limit", "max_tokens"])
def test_a_huge_limit_is_accepted(name, value):
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    assert "dock 12" in manager.recall("s", "ORD-4471", **{name: value})[0].text


@pytest.mark.parametrize("max_tokens", [2, 5, 12, 20])
def test_lines_that_are_too_long_for_the_tokens_are_cut(max_tokens):
    manager = compacted_manager("The order ORD-4471 ships from dock 12 on the second Tuesday after the harbor opens.")
    (passage,) = manager.recall("s", "ORD-4471", max_tokens=max_tokens)
    assert passage.text.endswith("…") and "harbor opens" not in passage.text
    assert len(passage.text) > 1
    assert load_counter("o200k_base")(passage.text) <= max_tokens


def test_a_name_at_the_end_of_a_long_query_counts():
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    pasted = " ".join(f"w{number}" for number in range(2_000))
    assert "dock 12" in texts(manager.recall("s", f"{pasted} ORD-4471"))


@pytest.mark.parametrize(
    "query",
    ['ORD-4471 "', "NEAR(ORD-4471", "text:ORD-4471*", "^ORD-4471 NOT (", "🔥 ORD-4471\x00", "\u202eORD-4471\u202c"],
)
def test_the_syntax_of_the_search_engine_has_no_meaning_in_a_query(query):
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")
    assert "dock 12" in manager.recall("s", query)[0].text


@pytest.mark.parametrize(
    "query", ["", "the", "…", "zzzqqq", '"', "a OR b NOT (", "x" * 50_000, "\x00\ud800", "🔥", "!?… ---"]
)
def test_any_query_is_answered(query):
    assert isinstance(compacted_manager("The order ORD-4471 ships from dock 12.").recall("s", query), list)


def test_passages_are_redacted():
    recorder = Recorder()
    manager = compacted_manager(f"The deploy key is {SECRET} for dock 12.", recorder)
    passages = manager.recall("s", f"deploy key dock {SECRET}")
    assert "dock 12" in texts(passages)
    assert SECRET not in texts(passages)
    assert SECRET not in str(recorder.of("compact.recall"))


def test_new_messages_are_indexed_by_the_next_recall():
    manager = small_manager()
    messages = history("The order ORD-4471 ships from dock 12.")
    manager.preflight("s", messages)
    assert manager.recall("s", "QX-99") == []
    manager.preflight("s", [*messages, {"role": "user", "content": "The new code is QX-99."}])
    (passage,) = manager.recall("s", "QX-99", limit=1)
    assert passage.is_in_prompt and passage.turn == 32


def test_a_recall_is_an_event_with_its_query_and_passages_in_the_payload():
    recorder = Recorder()
    manager = compacted_manager("The order ORD-4471 ships from dock 12.", recorder)
    passages = asyncio.run(manager.arecall("s", "ORD-4471 dock"))
    (event,) = recorder.of("compact.recall")
    assert event["properties"]["passage_count"] == len(passages)
    assert event["properties"]["outside_prompt_count"] >= 1
    assert event["payload"]["query"] == "ORD-4471 dock"
    assert event["payload"]["results"][0]["text"] == passages[0].text
    assert event["started_at"] <= event["ended_at"]
    assert "ORD-4471" not in str(event["properties"])


@pytest.mark.parametrize("renderer", ["layered", "bridge", "inplace"])
def test_the_summary_mentions_the_tool_only_if_there_is_one(renderer):
    def prompt(**options: Any) -> list[Any]:
        return small_manager(policy={"renderer": renderer}, **options).preflight("s", history("Dock 12."))

    assert "[Recall]" not in str(prompt())
    (line,) = [
        line
        for item in prompt(recall={"enabled": True, "tool_name": "look_up"})
        for line in str(item["content"]).splitlines()
        if line.startswith("[Recall]")
    ]
    assert "`look_up`" in line


def test_the_line_about_recall_is_not_part_of_a_summary_that_is_read_again():
    manager = small_manager(recall={"enabled": True})
    request = manager.preflight("s", history("Dock 12."))
    text = next(item["content"] for item in request if "[Recall]" in str(item["content"]))
    assert text.splitlines()[-1].startswith("[Recall]")
    summary = StructuredSummary.parse(text)
    assert summary is not None and "[Recall]" not in summary.render()


def test_an_interrupted_recall_does_not_spoil_the_next_one(monkeypatch):
    manager = compacted_manager("The order ORD-4471 ships from dock 12.")

    def interrupt(*_: Any) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(recall_index, "documents", interrupt)
        manager.recall("s", "ORD-4471")
    assert "dock 12" in texts(manager.recall("s", "ORD-4471"))


def test_indexes_in_memory_are_bounded():
    manager = small_manager()
    for number in range(40):
        manager.preflight(f"s{number}", [{"role": "user", "content": f"The code is C-{number}."}])
        assert manager.recall(f"s{number}", f"C-{number}")
    indexes = [manager._session(f"s{number}").recall.index for number in range(40)]
    assert sum(index is not None for index in indexes) == 32
    assert manager.recall("s0", "C-0")


def test_a_message_is_not_needed_to_be_text():
    manager = small_manager()
    manager.preflight("s", [Message("user", [{"type": "text", "text": "code QX-99"}]), Message("assistant", "")])
    assert manager.recall("s", "QX-99")
